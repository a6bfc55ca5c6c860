"""A long cycle is stored part by part; between two parts the lock is free, and what arrives is taken in (laws P4, W2)."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from runrig.domain.errors import RunrigError
from runrig.domain.gangs import Priority
from runrig.domain.plan import Action, Admit, Submit
from runrig.service.runtime import reconciler, transactor
from runrig.service.runtime.metrics import Longest, Metrics
from runrig.service.runtime.state_lock import StateLock
from tests.patience import until
from tests.worlds.service import Desk, desk


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One gang that is looked at ends a part."""
    monkeypatch.setattr(transactor, "STEPS_PER_PART", 1)


@contextmanager
def after_each_commit(it: Desk, do: Iterator[None]) -> Iterator[None]:
    """Each next step of *do* is done after a commit, but for those that it makes itself."""
    doing: list[bool] = []

    def told(_: object) -> None:
        if not doing:
            doing.append(True)
            next(do, None)
            doing.clear()

    with it.service.listening(told):
        yield


def four_that_wait(it: Desk) -> int:
    """The revision at which two wait in each pool."""
    for pool in ("pool1", "pool2"):
        it.submit("a", pool)
        it.submit("b", pool)
    return it.revision


def admitted(actions: list[Action]) -> list[str]:
    return [action.gang for action in actions if isinstance(action, Admit)]


def test_arrivals_between_two_parts_are_evaluated_in_queue_order(tmp_path: Path) -> None:
    def arrive() -> Iterator[None]:
        it.submit("hi", "pool2", Priority.HIGH)
        yield

    with desk(tmp_path) as it:
        before = four_that_wait(it)
        with after_each_commit(it, arrive()):
            it.service._reconciler.round()
        assert admitted(it.actions(after=before)) == [
            "a-1/main-group",
            "hi-1/main-group",
            "b-1/main-group",
            "a-2/main-group",
        ]


def test_state_reloaded_between_two_parts_continues_where_it_was(tmp_path: Path) -> None:
    """Here while the ends of tasks are taken in, and while what waits is decided."""

    def forget() -> Iterator[None]:
        while True:
            it.service._transactor.reload()
            yield

    with desk(tmp_path) as it:
        ended = [it.submit("a", duration=1), it.submit("b", "pool2", duration=1)]
        it.later(0)
        four_that_wait(it)
        it.time[0] += 5
        with after_each_commit(it, forget()):
            it.service._reconciler.round()
        assert [it.status(id) for id in ended] == ["COMPLETED"] * 2
        assert len(it.backend.desired.run) == 4


def test_cycle_ends_and_starts_everything_that_fits_even_if_work_arrives_after_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactor, "MOST_FRESH_STARTS", 8)

    def arrive() -> Iterator[None]:
        for at in range(1000):
            it.submit(f"late{at}", priority=Priority.LOW)
            yield

    with desk(tmp_path) as it:
        before = four_that_wait(it)
        with after_each_commit(it, arrive()):
            assert it.service._reconciler.round(), "something waits that it has not looked at"
        done = it.actions(after=before)
        assert admitted(done) == [f"{name}/main-group" for name in ("a-1", "b-1", "a-2", "b-2")]
        assert sum(isinstance(action, Submit) for action in done) <= 8


def test_the_backend_starts_what_the_first_parts_admitted_before_the_last_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def look() -> Iterator[None]:
        while True:
            told.append(len(it.backend.desired.run))
            yield

    for share, expected in ((float("inf"), [0, 1, 2, 3]), (0.0, [0, 0, 0, 0])):
        monkeypatch.setattr(reconciler, "SYNC_SHARE", share)
        told.clear()
        with desk(tmp_path / str(share)) as it:
            four_that_wait(it)
            it.service._reconciler._sync_took_s = 1.0
            with after_each_commit(it, look()):
                it.service._reconciler.round()
            assert (told, len(it.backend.desired.run)) == (expected, 4)


def test_part_that_cannot_be_stored_does_not_undo_earlier_parts(tmp_path: Path) -> None:
    def fill() -> Iterator[None]:
        yield
        full(tmp_path)
        yield

    with desk(tmp_path) as it:
        before = four_that_wait(it)
        with after_each_commit(it, fill()), pytest.raises(RunrigError):
            it.service.settle()
        assert len(admitted(it.actions(after=before))) == 2
        not_full(tmp_path)
        it.service.settle()
        assert sorted(admitted(it.actions(after=before))) == [
            f"{each}/main-group" for each in ("a-1", "a-2", "b-1", "b-2")
        ]


# ---------------------------------------------------------------- readiness


def full(folder: Path) -> None:
    """From now on no commit succeeds, whoever makes it."""
    with closing(sqlite3.connect(folder / "runrig.db")) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )


def not_full(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "runrig.db")) as connection:
        connection.execute("DROP TRIGGER full")


def test_server_is_not_ready_while_the_store_fails_and_recovers_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "FIRST_BACK_OFF_S", 0.01)
    with desk(tmp_path) as it:
        it.service.start()
        assert it.service.not_ready is None
        full(tmp_path)
        with pytest.raises(RunrigError):
            it.submit("a")
        assert "disk is full" in str(it.service.not_ready)
        until(lambda: it.service.standstill is not None)
        assert "disk is full" in str(it.service.standstill)  # `why` tells users.
        not_full(tmp_path)
        until(lambda: it.service.not_ready is None)
        assert it.submit("b") == "b-1"


def says(it: Desk, beginning: str) -> bool:
    """Whole seconds follow; how many depends on the machine."""
    return (it.service.not_ready or "").startswith(beginning)


def test_server_reports_immediately_that_a_held_lock_makes_it_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactor, "LONGEST_HOLD_S", 0.02)
    taken, enough = threading.Event(), threading.Event()

    def keep(it: Desk) -> None:
        with it.service._transactor.reading():
            taken.set()
            enough.wait()

    with desk(tmp_path) as it:
        thread = threading.Thread(target=keep, args=(it,))
        thread.start()
        taken.wait()
        try:
            until(lambda: says(it, "its state has been locked for "))
        finally:
            enough.set()
            thread.join()
        assert it.service.not_ready is None


def test_stuck_loop_makes_the_server_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "LONGEST_PART_S", 0.02)
    enough = threading.Event()
    with desk(tmp_path) as it:
        it.backend.answers = enough
        it.service.start()
        try:
            until(lambda: says(it, "its scheduling loop has been stuck for "))
        finally:
            enough.set()
        until(lambda: it.service.not_ready is None)


def test_request_during_a_part_gets_the_lock_before_the_next_part() -> None:
    lock, order = StateLock(Metrics()), []

    def other() -> None:
        with lock:
            order.append("other")

    thread = threading.Thread(target=other)
    with lock:
        thread.start()
        while not lock._waited:
            pass
        order.append("first part")
    lock.give_way()
    with lock:
        order.append("second part")
    thread.join()
    assert order == ["first part", "other", "second part"]


def test_lock_is_held_from_the_first_acquisition_to_the_last_release() -> None:
    metrics = Metrics()
    lock = StateLock(metrics)
    with lock:
        with lock:
            assert lock.held_s > 0
        assert lock.held_s > 0
    assert lock.held_s == 0
    assert b"runrig_lock_seconds_count 1.0" in metrics.text()


def test_the_longest_hold_is_forgotten_after_ten_minutes() -> None:
    now = [0.0]
    longest = Longest(lambda: now[0])
    longest.see(2.0)
    longest.see(1.0)
    shown = []
    for now[0] in (0.0, 299.0, 300.0, 599.0, 600.0):
        shown.append(longest.seconds())
    assert shown == [2.0, 2.0, 2.0, 2.0, 0.0]
    longest.see(0.5)
    now[0] = 1500.0
    assert longest.seconds() == 0.0
