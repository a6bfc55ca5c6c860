"""Each change that is said to start a workflow is one that its owner can make."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from runrig.domain.changes import Who
from runrig.domain.errors import Conflict, Refused
from runrig.domain.plan import PutPool
from runrig.domain.steps import drained
from runrig.engine.foresight.would_start import starting_changes
from runrig.engine.lifecycle.closing import close
from runrig.engine.lifecycle.reassignments import reassign
from tests.worlds.engine import World, task, workflow


def offered(it: World) -> set[str]:
    found = drained(starting_changes(it.state, "w-1", ["a", "b"], [Who.OWNER], 1, it.now))
    return {str(change) for _, foreseen in found for answer in foreseen.answers for change in answer.changes}


def waiting() -> World:
    it = World({"a": 2, "b": 2}, {"n0": 4})
    it.submit("full", "a", gpus=2)
    it.submit("w", "a", gpus=2)
    it.cycle()
    return it


def test_a_move_to_a_pool_with_room_is_offered() -> None:
    it = waiting()
    assert "move it to pool b" in offered(it)
    it.do(*reassign(it.state, "w-1", pool="b").actions)
    it.cycle()
    assert "w-1" in it.running()


def closed() -> World:
    it = waiting()
    it.do(*close(it.state, "b", user="root", now=it.now).actions)
    return it


def limited() -> World:
    it = waiting()
    it.do(PutPool(replace(it.state.pools["b"], max_run_time_s=60.0), it.state.pools["b"]))
    return it


def started() -> World:
    it = World({"a": 2, "b": 2}, {"n0": 4})
    it.submit("w", "a", spec=workflow("w", task("runs", 2), task("waits", 2)))
    it.cycle()
    return it


@pytest.mark.parametrize("case", [closed, limited, started])
def test_a_move_that_would_be_refused_is_not_offered(case: Callable[[], World]) -> None:
    it = case()
    with pytest.raises((Conflict, Refused)):
        reassign(it.state, "w-1", pool="b")
    assert "move it to pool b" not in offered(it)


def test_a_smaller_request_is_not_offered_if_the_pool_is_closed_to_it() -> None:
    it = World({"a": 3, "b": 1}, {"n0": 4})
    it.submit("full", "a", gpus=2)
    it.submit("w", "a", gpus=2)
    it.cycle()
    assert "request 1 GPU per pod for t (now 2)" in offered(it)
    it.do(*close(it.state, "a", user="root", now=it.now).actions)
    assert offered(it) == {"set its priority to LOW"}
