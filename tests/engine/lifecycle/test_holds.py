"""Workflows on hold (rule W3)."""

from dataclasses import replace

import pytest

from runrig.domain.errors import Conflict, NotFound
from runrig.domain.plan import EndHold, Hold, Queue, Unqueue
from runrig.domain.pools import Pool
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.why import WaitingAlike
from runrig.domain.steps import drained
from runrig.domain.workflows import Status
from runrig.engine.explain.pool_why import pool_why
from runrig.engine.explain.why import why
from runrig.engine.lifecycle import holds
from tests.worlds.engine import LOW, NORMAL, STRICT, World, gpu_quota, task, workflow


def hold(world: World, id: str) -> None:
    world.do(*holds.put_on_hold(world.state, id, user="alice").actions)


def release(world: World, id: str) -> None:
    world.do(*holds.end_hold(world.state, id).actions)


def test_a_released_workflow_starts_before_those_submitted_later() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("first", "a")
    hold(world, "first-1")
    assert world.cycle() == []
    world.submit("second", "a")
    release(world, "first-1")
    assert world.cycle() == ["admit first"]


def test_a_hold_removes_the_gang_from_the_queue_and_a_release_requeues_it() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("w", "a")
    gang = world.state.ledger.entries["w-1/t-group"].gang
    plan = holds.put_on_hold(world.state, "w-1", user="alice")
    assert plan.actions == (Hold("w-1", "alice"), Unqueue("w-1/t-group"))
    world.do(*plan.actions)
    assert (world.state.ledger.entries, world.status("w-1")) == ({}, [Status.WAITING])
    assert holds.end_hold(world.state, "w-1").actions == (EndHold("w-1"), Queue(gang))


def test_a_gang_on_hold_preempts_nothing_and_loses_its_nomination() -> None:
    world = World({"a": 2, "b": 0}, {"n0": 2})
    world.submit("low", "b", LOW, 2)
    world.cycle()
    world.submit("firm", "a", NORMAL, 2)
    hold(world, "firm-1")
    assert world.cycle() == []
    release(world, "firm-1")
    assert world.cycle() == ["nominate firm", "preempt low for firm (RECLAIM)"]
    hold(world, "firm-1")
    assert world.state.ledger.nominated == {}
    assert world.cycle() == ["admit low"]


def test_gangs_behind_the_head_of_a_strict_pool_pass_it_while_it_is_on_hold() -> None:
    """P4."""
    world = World({"a": Pool("a", gpu_quota(2), queueing=STRICT)}, {"n0": 2})
    world.submit("runs", "a")
    world.cycle()
    world.submit("head", "a", NORMAL, 2)
    world.submit("next", "a")
    assert world.cycle() == []
    hold(world, "head-1")
    assert world.cycle() == ["admit next"]


def test_downstream_groups_of_a_running_one_wait_for_the_release() -> None:
    """W1."""
    world = World({"a": 2}, {"n0": 2})
    world.submit("w", "a", spec=workflow("w", task("x"), task("y"), upstream={"y": ("x",)}))
    world.cycle()
    hold(world, "w-1")
    world.finish("w-1")
    assert world.cycle() == []
    assert world.status("w-1") == [Status.COMPLETED, Status.WAITING]
    release(world, "w-1")
    assert world.cycle() == ["admit w"]


def test_preempted_work_on_hold_does_not_restart_before_the_release() -> None:
    world = World({"a": 2, "b": 0}, {"n0": 2})
    spec = workflow("low", task("x"), task("y"), upstream={"y": ("x",)})
    world.submit("low", "b", LOW, spec=spec)
    world.cycle()
    hold(world, "low-1")
    world.submit("firm", "a", NORMAL, 2)
    world.cycle()
    assert world.cycle() == ["admit firm"]
    world.finish("firm-1")
    assert world.cycle() == []
    assert world.status("low-1") == [Status.WAITING, Status.WAITING]
    release(world, "low-1")
    assert world.cycle() == ["admit low"]
    assert world.state.groups["low-1", "x-group"].attempt == 1


def test_time_on_hold_does_not_count_as_queue_time() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("w", "a", spec=replace(workflow("w", task("t", 1)), queue_timeout_s=10.0))
    hold(world, "w-1")
    world.now += 100
    assert world.cycle() == []
    release(world, "w-1")
    assert world.cycle() == ["admit w"]


def test_impossible_holds_are_rejected_and_change_nothing() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("w", "a")
    with pytest.raises(Conflict, match="w-1 is not on hold"):
        holds.end_hold(world.state, "w-1")
    hold(world, "w-1")
    with pytest.raises(Conflict, match="w-1 was already put on hold by alice"):
        holds.put_on_hold(world.state, "w-1", user="bob")
    release(world, "w-1")
    world.cycle()
    with pytest.raises(Conflict, match="all groups of w-1 have started"):
        holds.put_on_hold(world.state, "w-1", user="alice")
    with pytest.raises(NotFound, match="unknown workflow 'x-1', or it has ended"):
        holds.put_on_hold(world.state, "x-1", user="alice")


def test_a_cancelled_workflow_is_no_longer_on_hold() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("w", "a")
    hold(world, "w-1")
    world.cancel("w-1")
    assert (world.state.on_hold, world.state.workflows["w-1"].held_by) == (set(), None)


def test_why_shows_who_put_it_on_hold_and_when() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("w", "a")
    hold(world, "w-1")
    (group,) = why(world.state, "w-1")
    (reason,) = group.reasons
    assert str(reason) == "put on hold by alice at 1970-01-01 00:00:01 UTC"
    assert (reason.headline, reason.law) == ("on hold (alice)", "W3")


def test_a_pool_lists_work_on_hold_separately_from_waiting_work() -> None:
    world = World({"a": 8}, {"n0": 8})
    world.submit("w", "a", spec=workflow("w", task("x", 2, count=2), task("y"), upstream={"y": ("x",)}))
    world.submit("v", "a", NORMAL, 3)
    hold(world, "w-1")
    hold(world, "v-1")
    found = drained(pool_why(world.state, "a"))
    assert (found.gangs, found.gpus) == (0, 0)
    assert found.held == (WaitingAlike(Reason(Code.HELD, "W3", where="alice"), 2, 7, ("w-1/x-group", "v-1/t-group")),)
