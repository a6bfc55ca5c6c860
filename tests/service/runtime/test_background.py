"""A thread repeats its step until it is stopped, whatever the step does."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from runrig.domain.errors import ServerFault, Unavailable
from runrig.service.runtime.background import Background
from runrig.service.runtime.transactor import Listener
from tests.patience import PATIENCE_S

FOREVER_S = 10 * PATIENCE_S


class Steps:
    """Answers *more* to each step in turn; an exception is raised.  `taken` has what it answered."""

    def __init__(self, *more: bool | Exception, pause_s: float = 0.0) -> None:
        self._more = iter(more)
        self._pause_s = pause_s
        self.taken: SimpleQueue[str] = SimpleQueue()

    def __call__(self) -> bool:
        more = next(self._more, None)
        if isinstance(more, Exception):
            raise more
        return bool(more)

    def pause_s(self, took_s: float, more: bool) -> float:
        self.taken.put(f"more: {more}")
        return self._pause_s

    def next(self) -> str:
        return self.taken.get(timeout=PATIENCE_S)


def test_step_that_raises_is_logged_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    steps = Steps(True, OSError("lost"), Unavailable("no database"), ServerFault("the disk is full"))
    thread = Background("sweep", steps, steps.pause_s)
    with caplog.at_level(logging.ERROR):
        thread.start()
        said = [steps.next() for _ in range(5)]
        thread.stop()
    assert said == ["more: True", *["more: False"] * 4]
    # Everything fails while the database is unreachable or its disk full, so that has no stack trace.
    assert [(each.getMessage(), each.exc_info is not None) for each in caplog.records] == [
        ("event=sweep_failed error=\"OSError('lost')\"", True),
        ('event=sweep_failed error="no database"', False),
        ('event=sweep_failed error="the disk is full"', False),
    ]


@pytest.mark.parametrize("waits", ["delay", "pause", "idle"])
def test_stop_ends_every_wait(waits: str) -> None:
    steps = Steps(pause_s=FOREVER_S if waits == "pause" else 0.0)
    idle_s, delay_s = (FOREVER_S if waits == each else 0.0 for each in ("idle", "delay"))
    thread = Background("sweep", steps, steps.pause_s, idle_s=idle_s, delay_s=delay_s)
    thread.start()
    if waits != "delay":
        steps.next()
    thread.stop()
    assert (thread._thread.is_alive(), steps.taken.empty()) == (False, True)


def test_commit_and_wake_end_the_wait() -> None:
    listeners: SimpleQueue[Listener] = SimpleQueue()
    ended: list[Listener] = []

    @contextmanager
    def listening(listener: Listener) -> Iterator[None]:
        listeners.put(listener)
        yield
        ended.append(listener)

    steps = Steps()
    thread = Background("sweep", steps, steps.pause_s, idle_s=FOREVER_S, listening=listening)
    thread.start()
    commit = listeners.get(timeout=PATIENCE_S)
    steps.next()
    commit(None)
    steps.next()
    thread.wake()
    steps.next()
    thread.stop()
    assert (steps.taken.empty(), ended) == (True, [commit])


def test_thread_that_never_started_can_be_stopped() -> None:
    thread = Background("sweep", Steps(), lambda *_: FOREVER_S)
    thread.stop()
    assert not thread._thread.is_alive()
