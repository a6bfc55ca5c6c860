"""The order in which users render templates: counted, not timed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from runrig.domain.errors import Unavailable
from runrig.service.mirror.turns import Turns
from tests.patience import PATIENCE_S, until


class Crowd:
    """Users who wait for turns, each in a thread, and end one when told to."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.begun: list[str] = []
        self._ends: dict[str, SimpleQueue[None]] = {}
        self._threads: list[threading.Thread] = []

    def asks(self, name: str) -> None:
        """*name*: user and number, such as ``ann-1``."""
        before = len(self._turns._waiting) + self._turns._running.total()
        self._ends[name] = SimpleQueue()
        self._threads.append(threading.Thread(target=self._take, args=(name,), daemon=True))
        self._threads[-1].start()
        until(lambda: len(self._turns._waiting) + self._turns._running.total() > before)

    def _take(self, name: str) -> None:
        with self._turns.turn(name.partition("-")[0]):
            self.begun.append(name)
            self._ends[name].get(timeout=PATIENCE_S)

    def end(self, name: str) -> None:
        self._ends[name].put(None)

    def close(self) -> None:
        for name in self._ends:
            self.end(name)
        for thread in self._threads:
            thread.join(PATIENCE_S)


@contextmanager
def crowd(turns: Turns) -> Iterator[Crowd]:
    here = Crowd(turns)
    try:
        yield here
    finally:
        here.close()


def begun(here: Crowd, *names: str) -> Callable[[], bool]:
    return lambda: here.begun == list(names)


def test_no_user_can_take_all_turns_and_the_others_keep_their_order_of_arrival() -> None:
    with crowd(Turns("template renderings", ", or send rendered files", at_once=3, of_one_user=9, of_all=20)) as here:
        for name in ("ann-1", "ann-2", "ann-3", "ann-4", "bob-1", "cy-1", "bob-2"):
            here.asks(name)
        until(begun(here, "ann-1", "ann-2", "bob-1"))
        here.end("ann-1")
        until(begun(here, "ann-1", "ann-2", "bob-1", "ann-3"))
        here.end("bob-1")
        until(begun(here, "ann-1", "ann-2", "bob-1", "ann-3", "cy-1"))
        here.end("cy-1")
        until(begun(here, "ann-1", "ann-2", "bob-1", "ann-3", "cy-1", "bob-2"))


def test_excess_requests_are_refused_immediately_with_the_reason() -> None:
    turns = Turns("template renderings", ", or send rendered files", at_once=2, of_one_user=2, of_all=3)
    with crowd(turns) as here:
        for name in ("ann-1", "ann-2", "bob-1"):
            here.asks(name)
        for user, whose in (("ann", r"in progress by ann \(limit 2\)"), ("cy", r"in progress \(limit 3\)")):
            with pytest.raises(Unavailable, match=whose) as refused, turns.turn(user):
                pass
            assert refused.value.details == {"retry_after_s": 2}
        here.end("ann-1")
        until(begun(here, "ann-1", "bob-1", "ann-2"))
        here.asks("ann-3")


def test_a_template_that_fails_gives_its_turn_back() -> None:
    turns = Turns("template renderings", ", or send rendered files", at_once=2, of_one_user=1, of_all=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), turns.turn("ann"):
            raise ZeroDivisionError
