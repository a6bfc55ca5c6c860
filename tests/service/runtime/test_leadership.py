"""What keeps a server from ever leading ends it, with its words and no others; what may pass is tried again."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runrig.domain.errors import InvalidInput, RunrigError, Unavailable
from runrig.ports.election import Holder
from runrig.service.runtime import leadership
from runrig.service.runtime.leadership import STANDING_BY, UNREACHABLE, Leadership, LeaderTerm
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


class Ends:
    """An election, and its only term: after the first heartbeat, the database is silent, or another server leads."""

    def __init__(self, *, replaced: bool) -> None:
        self.overtaken, self._replaced, self._beats = False, replaced, 0
        self.closed = threading.Event()

    def holder(self) -> Holder | None:
        return None

    def take(self) -> "Ends":
        if self._beats:
            raise Unavailable("the database does not answer")
        return self

    def end(self, holder: Holder) -> None: ...

    def beat(self) -> bool:
        self._beats += 1
        if self._beats > 1 and not self._replaced:
            raise Unavailable("the database does not answer")
        return self._beats == 1

    def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize(("replaced", "standing"), [(False, UNREACHABLE), (True, STANDING_BY)])
def test_a_leader_names_another_only_if_there_is_one(
    replaced: bool, standing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leadership, "BEAT_S", 0.01)
    monkeypatch.setattr(leadership, "SILENT_S", 0.3)
    it = Ends(replaced=replaced)
    seen: list[str] = []

    class Closing:
        def close(self) -> None:
            seen.append(found.standing)

    found = Leadership[Ends, LeaderTerm](it, lambda *_: Closing())
    found.start()
    assert it.closed.wait(PATIENCE_S)
    found.stop()
    found.join(PATIENCE_S)
    assert seen == [standing]
    assert f"event=leading_ended stopping=False replaced={replaced}" in [each.getMessage() for each in caplog.records]
