"""Turns: never more than so many at once, first come, first served, and who leaves, or comes too late, takes nobody's."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from runrig.domain.errors import Unavailable
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp
from runrig.service.mirror.turns import Turns
from tests.patience import until


def test_turns_are_given_in_order_of_arrival() -> None:
    turns, had = Turns("searches", at_once=1, of_all=4, within_s=60.0), list[int]()

    def ask(number: int) -> None:
        with turns.turn():
            assert turns._running.total() == 1
            had.append(number)

    with ThreadPoolExecutor(3) as threads:
        waiting: list[Future[None]] = []
        with turns.turn():
            for number in range(3):
                waiting.append(threads.submit(ask, number))
                until(lambda: len(turns._waiting) == len(waiting))
            with pytest.raises(Unavailable, match="too many searches in progress"), turns.turn():
                pass
            assert had == []
        for each in waiting:
            each.result()
    assert had == [0, 1, 2]


def test_client_that_disconnects_gives_up_its_turn() -> None:
    turns, gone = Turns("searches", at_once=1, of_all=3, within_s=60.0), Leaving()
    with ThreadPoolExecutor(2) as threads, ExitStack() as first, ExitStack() as third:
        first.enter_context(turns.turn())
        second = threads.submit(turns.turn(leaving=gone).__enter__)
        until(lambda: len(turns._waiting) == 1)
        late = threads.submit(third.enter_context, turns.turn())
        until(lambda: len(turns._waiting) == 2)
        gone.leave()
        assert isinstance(second.exception(), GivenUp)
        assert not late.done()
        first.close()
        late.result()
    with turns.turn():
        assert turns._waiting == []


def test_waiting_for_a_turn_has_a_time_limit() -> None:
    turns = Turns("searches", at_once=1, of_all=2, within_s=0.01)
    with turns.turn():
        with pytest.raises(Unavailable), turns.turn():
            pass
        assert turns._waiting == []


def test_client_that_has_disconnected_starts_nothing() -> None:
    turns, gone = Turns("searches", at_once=1, of_all=1), Leaving()
    gone.leave()
    with pytest.raises(GivenUp), turns.turn(leaving=gone):
        pass
    with turns.turn():
        assert turns._running.total() == 1
