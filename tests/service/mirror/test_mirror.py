"""The mirror is a process of its own: it answers what was committed, comes back when it dies, and ends with the server."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from runrig.service.mirror.answering import Question
from runrig.service.mirror.mirror import Absent, GivenUp, Mirror
from runrig.wiring.mirror import mirror_of
from tests.patience import until
from tests.service.mirror import questions
from tests.worlds.service import Desk, desk

pytestmark = pytest.mark.slow

T = TypeVar("T")


@contextmanager
def mirrored(folder: Path, database: str | None = None) -> Iterator[tuple[Desk, Mirror]]:
    with desk(folder, database=database) as it:
        mirror = mirror_of(database or str(folder / "runrig.db"), it.backend)
        with closing(mirror):
            yield it, mirror


def told(mirror: Mirror, question: Question[T]) -> T:
    """The answer, as soon as a mirror is there."""
    found: list[T] = []

    def answered() -> bool:
        try:
            with mirror.asking(question) as asked:
                found.append(asked.answer()[0])
        except Absent:
            return False
        return True

    until(answered)
    return found[0]


def process_of(mirror: Mirror) -> psutil.Process:
    assert mirror._running is not None
    return psutil.Process(mirror._running.process.pid)


def test_mirror_answers_from_committed_data(tmp_path: Path, any_store: str) -> None:
    with mirrored(tmp_path, any_store) as (it, mirror):
        assert told(mirror, Question(questions.workflows, ())) == []
        for number in range(1, 4):
            it.submit("a")
            it.later(0)
            with mirror.asking(Question(questions.workflows, (), at_least=it.revision)) as asked:
                assert asked.answer() == ([f"a-{each}" for each in range(1, number + 1)], it.revision)


def test_branch_changes_nothing_and_holds_no_database_connection(tmp_path: Path, any_store: str) -> None:
    with mirrored(tmp_path, any_store) as (it, mirror):
        it.submit("a")
        told(mirror, Question(questions.revision, (), at_least=it.revision))
        assert told(mirror, Question(questions.cleared, (), branch=True)) == 0
        number, files = told(mirror, Question(questions.open_files, (), branch=True))
        assert number != process_of(mirror).pid
        assert [each for each in files if "runrig.db" in each] == []
        assert sum(each.startswith("socket:") for each in files) == 1  # the process for its answer
        assert told(mirror, Question(questions.workflows, (), at_least=it.revision)) == ["a-1"]


def test_query_fails_immediately_without_a_mirror(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that finds a damaged row ends with one line."""
    with mirrored(tmp_path) as (it, mirror):
        it.submit("a")
        with pytest.raises(Absent, match="is still loading"), mirror.asking(Question(questions.revision, ())):
            pass
        told(mirror, Question(questions.revision, ()))
        process_of(mirror).kill()
        process_of(mirror).wait()
        with pytest.raises(Absent), mirror.asking(Question(questions.revision, ())) as asked:
            asked.answer()
        with closing(sqlite3.connect(tmp_path / "runrig.db")) as connection:
            connection.execute("UPDATE gangs SET state = 'ODD'")
            connection.commit()
        mirror._not_before = 0.0
        with pytest.raises(Absent), mirror.asking(Question(questions.revision, ())):
            pass
        assert process_of(mirror).wait() == 1
        (said,) = capfd.readouterr().err.splitlines()
        assert "contains data that this version cannot read" in said


def test_mirror_killed_at_any_moment_comes_back(tmp_path: Path) -> None:
    with mirrored(tmp_path) as (it, mirror):
        it.submit("a")
        wrong: list[object] = []
        ended = threading.Event()

        def asks() -> None:
            while not ended.is_set():
                try:
                    with mirror.asking(Question(questions.workflows, (), at_least=it.revision)) as asked:
                        wrong.extend([] if asked.answer()[0] == ["a-1"] else ["another answer"])
                except Absent:
                    pass
                except BaseException as error:  # noqa: BLE001 - any is wrong
                    wrong.append(error)

        threads = [threading.Thread(target=asks) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            told(mirror, Question(questions.revision, ()))
            process_of(mirror).kill()
            mirror._not_before = 0.0  # it would take a second
        ended.set()
        for thread in threads:
            thread.join()
        mirror._not_before = 0.0
        assert wrong == []
        assert told(mirror, Question(questions.workflows, ())) == ["a-1"]


def test_disconnect_ends_the_branch(tmp_path: Path) -> None:
    with mirrored(tmp_path) as (_, mirror):
        told(mirror, Question(questions.revision, ()))
        started = tmp_path / "started"
        with mirror.asking(Question(questions.forever, (str(started),), branch=True)) as asked:
            until(lambda: started.exists() and started.read_text())
            branch = int(started.read_text())
            assert told(mirror, Question(questions.revision, ())) > 0  # others are answered in the meantime
            threading.Timer(0.1, asked.hang_up).start()
            with pytest.raises(GivenUp):
                asked.answer()
        until(lambda: not psutil.pid_exists(branch))
        assert told(mirror, Question(questions.revision, ())) > 0


def test_failed_query_is_logged_and_does_not_affect_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with mirrored(tmp_path) as (_, mirror):
        told(mirror, Question(questions.revision, ()))
        for branch in (False, True):
            caplog.clear()
            with (
                caplog.at_level(logging.ERROR),
                pytest.raises(Absent),
                mirror.asking(Question(questions.broken, (), branch=branch)) as asked,
            ):
                asked.answer()
            assert "on purpose" in caplog.text
            assert told(mirror, Question(questions.revision, ())) > 0


SERVER = """
import sys, time
from tests.service.mirror.test_mirror import told
from tests.service.mirror import questions
from runrig.service.mirror.answering import Question
from runrig.wiring.mirror import mirror_of
from runrig.backends.simulated import SimulatedBackend
mirror = mirror_of(sys.argv[1], SimulatedBackend)
told(mirror, Question(questions.revision, ()))
print(mirror._running.process.pid, flush=True)
try:
    with mirror.asking(Question(questions.forever, (sys.argv[2],), branch=True)) as asked:
        asked.answer(1000)
except BaseException as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_mirror_and_its_branches_end_with_the_server(tmp_path: Path, how: signal.Signals) -> None:
    with desk(tmp_path):
        started = tmp_path / "started"
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(tmp_path / "runrig.db"), str(started)], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        mirror = int(server.stdout.readline())
        until(lambda: started.exists() and started.read_text())
        os.kill(mirror, signal.SIGINT)  # Ctrl-C is meant for the server
        branch = int(started.read_text())
        assert psutil.pid_exists(mirror)
        server.send_signal(how)
        server.wait()
        until(lambda: not psutil.pid_exists(mirror) and not psutil.pid_exists(branch))
        server.stdout.close()
