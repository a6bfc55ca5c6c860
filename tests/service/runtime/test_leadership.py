"""What keeps a server from ever leading ends it, with its words and no others; what may pass is tried again."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runrig.domain.errors import InvalidInput, RunrigError, Unavailable
from runrig.ports.election import Holder
from runrig.service.runtime.leadership import STANDING_BY, Leadership, LeaderTerm
from runrig.store.election import SqlTerm, election
from tests.patience import PATIENCE_S, until


class Faster:
    """An election that another server wins between the two questions."""

    _asked = False

    def holder(self) -> Holder | None:
        before, self._asked = self._asked, True
        return Holder("the server with process id 7", 1, 0.0) if before else None

    def take(self) -> SqlTerm:
        raise Unavailable("the database is in use by the server with process id 7. Stop that server")

    def end(self, holder: Holder) -> None: ...

    def close(self) -> None: ...


class Nothing:
    def close(self) -> None: ...


def led(folder: Path, *errors: RunrigError) -> Leadership[SqlTerm, LeaderTerm]:
    """It has led, or given up, after *errors* came one after the other."""
    waiting, done = [*errors], threading.Event()

    def begin(term: SqlTerm, leads: Callable[[], bool]) -> LeaderTerm:
        if waiting:
            raise waiting.pop(0)
        return Nothing()

    found = Leadership(election(f"sqlite:///{folder / 'runrig.db'}"), begin)
    found.when_led = lambda _: done.set()
    found.when_failed = done.set
    found.start()
    assert done.wait(PATIENCE_S)
    found.stop()
    found.join(PATIENCE_S)
    return found


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """Errors of the log, and whether a trace of the stack is with them."""
    return [(each.getMessage(), bool(each.exc_info)) for each in caplog.records if each.levelno >= logging.ERROR]


def test_permanent_error_is_logged_once_without_a_traceback_or_a_retry_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mistake = InvalidInput.one("kubeconfig k cannot be used: not valid YAML")
    assert led(tmp_path, mistake).failure is mistake
    assert said(caplog) == [("event=cannot_lead error='kubeconfig k cannot be used: not valid YAML'", False)]


def test_transient_failures_are_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert led(tmp_path, Unavailable("it is away")).failure is None
    assert said(caplog) == [("event=leading_failed retry_in_s=0.5 error='it is away'", False)]


def test_server_that_loses_the_race_at_the_start_names_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        found = Leadership(Faster(), lambda *_: Nothing())
        found.start()
        until(lambda: found.standing == STANDING_BY)
        found.stop()
        found.join(PATIENCE_S)
    assert [each.getMessage() for each in caplog.records] == ["event=standing_by leader='the server with process id 7'"]
