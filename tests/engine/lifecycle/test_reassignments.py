"""Workflows that change pool or priority before they start (rule P3)."""

import pytest

from runrig.domain.blockers import Verdict
from runrig.domain.errors import Conflict, NotFound, Refused
from runrig.domain.plan import Queue, Reassign, Unqueue
from runrig.domain.workflows import Status
from runrig.engine.foresight.dry_run import dry_run
from runrig.engine.lifecycle import holds
from runrig.engine.lifecycle.reassignments import reassign
from tests.worlds.engine import HIGH, LOW, NORMAL, World


def crowded() -> World:
    """Pool a is full, pool b is empty, and w waits in a."""
    world = World({"a": 1, "b": 1}, {"n0": 2})
    world.submit("first", "a")
    world.cycle()
    world.submit("w", "a")
    world.cycle()
    return world


def test_a_waiting_workflow_starts_in_its_new_pool() -> None:
    world = crowded()
    plan = reassign(world.state, "w-1", pool="b")
    kinds = [type(action) for action in plan.actions]
    assert (kinds, plan.actions[1]) == ([Unqueue, Reassign, Queue], Reassign("w-1", "b", NORMAL))
    world.do(*plan.actions)
    assert (world.state.alive["a"], world.state.alive["b"]) == (1, 1)
    assert world.cycle() == ["admit w"]


def test_a_higher_priority_moves_it_ahead_of_earlier_submissions() -> None:
    """P4."""
    world = crowded()
    world.submit("later", "a")
    world.do(*reassign(world.state, "later-1", priority=HIGH).actions)
    world.finish("first-1")
    assert world.cycle() == ["admit later"]


def test_it_keeps_its_submit_time() -> None:
    """P4."""
    world = crowded()
    world.submit("later", "b")
    world.submit("full", "b")
    world.do(*reassign(world.state, "w-1", pool="b").actions)
    assert world.cycle() == ["admit w"]


def test_the_gate_checks_it_again_and_names_the_excess() -> None:
    """P3."""
    world = World({"a": 2, "b": 1}, {"n0": 3})
    world.submit("busy", "a", NORMAL, 2)
    world.cycle()
    world.submit("w", "a", NORMAL, 2)
    before = world.state.rows()
    with pytest.raises(Refused, match="w-1 needs 2 GPUs, but pool b has a quota of 1 GPU"):
        reassign(world.state, "w-1", pool="b")
    with pytest.raises(NotFound, match="unknown pool 'c'"):
        reassign(world.state, "w-1", pool="c")
    with pytest.raises(Conflict, match="w-1 is already in pool a with priority NORMAL"):
        reassign(world.state, "w-1", pool="a")
    with pytest.raises(Conflict, match="busy-1 has started: t-group uses nodes in pool a"):
        reassign(world.state, "busy-1", priority=LOW)
    assert world.state.rows() == before


def test_a_workflow_on_hold_stays_on_hold_in_its_new_pool() -> None:
    """W3."""
    world = crowded()
    world.do(*holds.put_on_hold(world.state, "w-1", user="alice").actions)
    assert reassign(world.state, "w-1", pool="b").actions == (Reassign("w-1", "b", NORMAL),)
    world.do(Reassign("w-1", "b", NORMAL))
    assert (world.cycle(), world.status("w-1")) == ([], [Status.WAITING])
    world.do(*holds.end_hold(world.state, "w-1").actions)
    assert world.cycle() == ["admit w"]


def test_a_dry_run_shows_the_effect_and_leaves_no_trace() -> None:
    world = crowded()
    before = world.state.rows()
    gangs = [each.gang for each in reassign(world.state, "w-1", pool="b").actions if isinstance(each, Queue)]
    (found,) = dry_run(world.state, gangs, world.now)
    assert (found.verdict, found.nodes) == (Verdict.STARTS, ("n0",))
    gangs = [each.gang for each in reassign(world.state, "w-1", priority=HIGH).actions if isinstance(each, Queue)]
    assert [each.verdict for each in dry_run(world.state, gangs, world.now)] == [Verdict.WAITS]
    assert world.state.rows() == before
    assert world.cycle() == []
