"""Workflows that change pool or priority before they start (rule P3), or priority while they run (rule P2)."""

import pytest

from runrig.domain.blockers import Verdict
from runrig.domain.errors import Conflict, NotFound, Refused
from runrig.domain.gangs import GangState, Priority
from runrig.domain.plan import Queue, Reassign, SetPriority, Unqueue
from runrig.domain.steps import drained
from runrig.domain.workflows import Status
from runrig.engine.foresight.dry_run import dry_run
from runrig.engine.lifecycle import holds
from runrig.engine.lifecycle.reassignments import effect_on_nodes, reassign
from tests.worlds.engine import HIGH, LOW, NORMAL, World, task, workflow


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
        reassign(world.state, "busy-1", pool="b")
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
    (found,) = drained(dry_run(world.state, gangs, world.now))
    assert (found.verdict, found.nodes) == (Verdict.STARTS, ("n0",))
    gangs = [each.gang for each in reassign(world.state, "w-1", priority=HIGH).actions if isinstance(each, Queue)]
    assert [each.verdict for each in drained(dry_run(world.state, gangs, world.now))] == [Verdict.WAITS]
    assert world.state.rows() == before
    assert world.cycle() == []


# ------------------------------------------------------------ while it runs


def lent(*, big: Priority = NORMAL) -> World:
    """Pools a and b of 2 GPUs on 4; big, of a, runs on 2, and low, of a too, on the 2 that b lends."""
    world = World({"a": 2, "b": 2}, {"n0": 4})
    world.submit("big", "a", big, 2)
    assert world.cycle() == ["admit big"]
    world.submit("low", "a", LOW, 2)
    assert world.cycle() == ["admit low"]
    return world


def effect(world: World, id: str, priority: Priority) -> str:
    """What a dry run says; it leaves no trace."""
    before = world.state.rows()
    said = effect_on_nodes(world.state, reassign(world.state, id, priority=priority))
    assert world.state.rows() == before
    return said


def test_running_work_becomes_low_immediately_and_its_quota_can_be_used() -> None:
    """P2, R1: it keeps its nodes. What waits for its quota preempts the LOW work that started last."""
    world = lent()
    world.submit("next", "a", NORMAL, 2)
    assert world.cycle() == []
    assert effect(world, "big-1", LOW) == (
        "big-1 would keep its nodes, free 2 GPUs of the quota of a, and become preemptible by HIGH and NORMAL work of a (rule R1). "
        "a would borrow 2 GPUs, which other pools could reclaim (rule R2)"
    )
    plan = reassign(world.state, "big-1", priority=LOW)
    assert plan.actions == (Reassign("big-1", "a", LOW), SetPriority("big-1/t-group", LOW))
    world.do(*plan.actions)
    assert world.cycle() == ["nominate next", "preempt low for next (PRIORITY)"]
    assert world.status("big-1") == [Status.RUNNING]


def test_what_became_low_is_preempted_like_other_low_work_and_waits_as_low() -> None:
    """R2, R6."""
    world = lent(big=HIGH)
    world.finish("low-1")
    world.do(*reassign(world.state, "big-1", priority=LOW).actions)
    world.submit("more", "a", NORMAL, 1)
    world.submit("theirs", "b", NORMAL, 2)
    assert world.cycle() == ["admit more", "nominate theirs", "preempt big for theirs (RECLAIM)"]
    assert world.cycle() == ["admit theirs"]
    (waiting,) = [each for each in world.state.ledger.entries.values() if each.gang.workflow == "big-1"]
    assert (waiting.gang.priority, waiting.state) == (LOW, GangState.PENDING)


def test_running_low_work_becomes_normal_where_the_quota_has_room() -> None:
    """P2, P1: it keeps its nodes, and nothing preempts it any more."""
    world = lent(big=LOW)
    assert effect(world, "low-1", NORMAL) == (
        "low-1 would keep its nodes and use 2 GPUs of the quota of a (rule P2). Nothing could preempt it any more (rule P1)"
    )
    world.do(*reassign(world.state, "low-1", priority=NORMAL).actions)
    world.submit("theirs", "b", NORMAL, 2)
    assert world.cycle() == ["nominate theirs", "preempt big for theirs (RECLAIM)"]
    assert (
        effect(world, "low-1", HIGH) == "low-1 would keep its nodes. HIGH and NORMAL differ only in the queue (rule P4)"
    )


def test_running_low_work_stays_low_where_the_quota_has_no_room() -> None:
    """P2: a nomination has taken its part of the quota already."""
    world = lent(big=LOW)
    world.submit("next", "a", NORMAL, 1)
    assert world.cycle() == ["nominate next", "preempt low for next (PRIORITY)"]
    before = world.state.rows()
    with pytest.raises(Refused, match="big-1 uses 2 GPUs, but pool a has 1 of its quota left, so it stays LOW"):
        reassign(world.state, "big-1", priority=NORMAL)
    with pytest.raises(
        Conflict, match=r"low-1/t-group is stopping. Change the priority of low-1 once it is queued again"
    ):
        reassign(world.state, "low-1", priority=NORMAL)
    assert world.state.rows() == before


def test_idle_quota_of_a_pool_without_borrowed_work_cannot_be_reclaimed() -> None:
    world = World({"a": 2, "b": 2}, {"n0": 4})
    world.submit("w", "a", NORMAL, 2)
    world.cycle()
    assert effect(world, "w-1", LOW).endswith("Other pools could not, as nothing would be borrowed (rule R2)")


def test_waiting_groups_change_with_the_running_ones() -> None:
    world = World({"a": 2}, {"n0": 2})
    spec = workflow("two", task("one", 2), task("other", 2))
    world.submit("two", "a", NORMAL, spec=spec)
    assert world.cycle() == ["admit two"]
    plan = reassign(world.state, "two-1", priority=LOW)
    assert [type(each) for each in plan.actions] == [Unqueue, Reassign, SetPriority, Queue]
    world.do(*plan.actions)
    assert {each.gang.priority for each in world.state.ledger.entries.values()} == {LOW}
