"""Pools that start nothing new (rule S8)."""

from dataclasses import replace

import pytest

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.domain.plan import Queue, Unqueue
from runrig.domain.pools import Pool
from runrig.domain.reasons import Code
from runrig.domain.steps import drained
from runrig.domain.times import Moment
from runrig.domain.workflows import Status
from runrig.engine.explain.pool_why import pool_why
from runrig.engine.explain.why import why
from runrig.engine.lifecycle import holds, pausing, pools
from runrig.engine.lifecycle.reassignments import reassign
from runrig.engine.lifecycle.workflows import next_deadline
from runrig.engine.state.state import State
from tests.worlds.engine import HIGH, LOW, NORMAL, STRICT, World, gpu_quota, subpool, task, workflow

AT = 1_800_000_000.0
PARENT = Pool("lab", gpu_quota(4))
SUB = subpool("lab", "a", 2)


def pause(world: World, pool: str, reason: str = "", until: float | None = None) -> None:
    now = AT if until is None else world.now
    world.do(*pausing.pause(world.state, pool, user="ann", now=now, reason=reason, until=until).actions)


def resume(world: World, pool: str) -> None:
    world.do(*pausing.resume(world.state, pool).actions)


def lab(free: int = 2) -> World:
    """Pool lab with a subpool a, and pool free, on 6 GPUs."""
    world = World({"lab": PARENT, "free": free}, {"n0": 6})
    world.do(*pools.put_pool(world.state, SUB, create=True).actions)
    return world


def test_in_a_paused_pool_nothing_starts_or_stops_and_queue_positions_are_kept() -> None:
    world = lab()
    runs, waits = world.submit("runs", "lab", NORMAL, 2), world.submit("waits", "lab--a", NORMAL, 2)
    assert sorted(world.cycle()) == ["admit runs", "admit waits"]
    queued = world.submit("queued", "lab", LOW, 1)
    pause(world, "lab")
    world.submit("late", "lab", HIGH, 1)
    world.submit("sub", "lab--a", HIGH, 1)
    assert world.cycle() == []
    assert world.status(runs) == world.status(waits) == [Status.RUNNING]
    assert world.status(queued) == [Status.WAITING]
    world.finish(runs)
    assert world.cycle() == []
    resume(world, "lab")
    assert world.state.pools["lab"] == PARENT
    assert sorted(world.cycle()) == ["admit late", "admit queued"]


def test_idle_quota_of_a_paused_pool_is_lent() -> None:
    """What waits there reserves nothing: LOW work of others may borrow it, although HIGH work waits for it."""
    world = World({"lab": 4, "free": 0}, {"n0": 4})
    world.submit("head", "lab", HIGH, 4)
    pause(world, "lab")
    world.submit("guest", "free", LOW, 4)
    assert world.cycle() == ["admit guest"]
    resume(world, "lab")
    assert world.cycle() == ["nominate head", "preempt guest for head (RECLAIM)"]


def test_a_pause_cancels_a_nomination() -> None:
    world = World({"a": 2, "b": 0}, {"n0": 2})
    world.submit("low", "b", LOW, 2)
    world.cycle()
    world.submit("firm", "a", NORMAL, 2)
    assert world.cycle() == ["nominate firm", "preempt low for firm (RECLAIM)"]
    pause(world, "a")
    assert world.state.ledger.nominated == {}
    assert world.cycle() == ["admit low"]


def test_a_strict_pool_is_resumed_in_its_order() -> None:
    world = World({"a": Pool("a", gpu_quota(1), queueing=STRICT)}, {"n0": 1})
    world.submit("first", "a")
    pause(world, "a")
    world.submit("second", "a")
    resume(world, "a")
    assert world.cycle() == ["admit first"]


def test_groups_behind_one_that_runs_and_preempted_work_wait_for_the_resume() -> None:
    world = World({"a": 2, "b": 0}, {"n0": 2})
    graph = world.submit("w", "a", NORMAL, spec=workflow("w", task("x"), task("y"), upstream={"y": ("x",)}))
    low = world.submit("low", "b", LOW, 1)
    world.cycle()
    pause(world, "a")
    pause(world, "b")
    world.finish(graph)
    assert world.cycle() == []
    assert world.status(graph) == [Status.COMPLETED, Status.WAITING]
    resume(world, "a")
    assert world.cycle() == ["admit w"]
    world.submit("firm", "a", NORMAL, 1)
    world.cycle()
    world.cycle()
    assert world.status(low) == [Status.WAITING]
    world.finish("firm-1")
    assert world.cycle() == []
    resume(world, "b")
    assert world.cycle() == ["admit low"]


def test_a_hold_and_a_pause_are_ended_one_by_one() -> None:
    world = lab()
    id = world.submit("w", "lab")
    world.do(*holds.put_on_hold(world.state, id, user="bob").actions)
    pause(world, "lab")
    world.do(*holds.end_hold(world.state, id).actions)
    assert world.cycle() == []
    world.do(*holds.put_on_hold(world.state, id, user="bob").actions)
    resume(world, "lab")
    assert world.cycle() == []
    world.do(*holds.end_hold(world.state, id).actions)
    assert world.cycle() == ["admit w"]


def test_work_leaves_a_paused_pool_and_moves_into_it() -> None:
    world = lab()
    leaves, comes = world.submit("leaves", "lab"), world.submit("comes", "free")
    pause(world, "lab")
    plan = reassign(world.state, leaves, pool="free")
    assert [type(each) for each in plan.actions][1:] == [Queue]
    world.do(*plan.actions)
    plan = reassign(world.state, comes, pool="lab")
    assert type(plan.actions[0]) is Unqueue
    assert len(plan.actions) == 2
    world.do(*plan.actions)
    world.do(*reassign(world.state, comes, priority=HIGH).actions)
    assert world.cycle() == ["admit leaves"]
    resume(world, "lab")
    assert world.cycle() == ["admit comes"]


def test_a_subpool_is_paused_alone_and_stays_paused_when_its_parent_is_resumed() -> None:
    world = lab()
    world.submit("sub", "lab--a")
    world.submit("own", "lab")
    pause(world, "lab--a")
    pause(world, "lab")
    assert world.cycle() == []
    resume(world, "lab")
    assert world.cycle() == ["admit own"]
    resume(world, "lab--a")
    assert world.cycle() == ["admit sub"]


def test_why_names_the_pool_and_since_when() -> None:
    world = lab()
    id = world.submit("w", "lab--a", NORMAL, 2)
    pause(world, "lab", "the file system is being checked")
    (group,) = why(world.state, id)
    (reason,) = group.reasons
    assert (reason.code, reason.law, reason.where, reason.since) == (Code.PAUSED, "S8", "lab", AT)
    assert str(reason) == (
        "pool lab was paused at 2027-01-15 08:00:00 UTC (the file system is being checked); "
        "ask an administrator to run `runrig pool resume lab`"
    )
    (held,) = drained(pool_why(world.state, "lab--a")).held
    assert (held.reason, held.gangs, held.gpus, held.first) == (replace(reason, sentence=""), 1, 2, ("w-1/t-group",))
    assert drained(pool_why(world.state, "lab")).held == ()


def test_time_in_a_paused_pool_counts_as_time_on_hold() -> None:
    world = lab()
    before = world.submit("before", "lab")
    pause(world, "lab")
    late = world.submit("late", "lab")
    world.now += 100
    for id in (before, late):
        assert (times := world.state.workflows[id].times) is not None
        assert (times.now, times.until(world.now).held, times.waited) == (Moment.HELD, world.now - times.since, 0.0)
    resume(world, "lab")
    for id in (before, late):
        assert (times := world.state.workflows[id].times) is not None
        assert times.now is Moment.WAITED
        assert times.held >= 100


@pytest.mark.parametrize("loaded", [False, True], ids=["live", "loaded from rows"])
def test_a_pause_ends_by_itself(loaded: bool) -> None:
    """At its time, not before it, also in a server that was started in between; then nothing is due any more."""
    world = lab()
    pause(world, "lab", until=world.now + 10)
    world.submit("own", "lab")
    world.submit("sub", "lab--a")
    if loaded:
        world.state = State.load(world.state.rows())
    assert next_deadline(world.state) == 10
    world.now = 8
    assert world.cycle() == []
    assert sorted(world.cycle()) == ["admit own", "admit sub"]
    assert (world.state.pools["lab"], next_deadline(world.state)) == (PARENT, None)


def test_the_pauses_of_a_subpool_and_its_parent_end_one_by_one() -> None:
    world = lab()
    pause(world, "lab", until=world.now + 10)
    pause(world, "lab--a", until=world.now + 20)
    world.submit("own", "lab")
    world.submit("sub", "lab--a")
    world.now = 10
    assert world.cycle() == ["admit own"]
    world.now = 19
    assert world.cycle() == ["admit sub"]


def test_a_pause_that_is_repeated_changes_only_its_end() -> None:
    world = lab()
    id = world.submit("w", "lab")
    pause(world, "lab", "moves")
    pause(world, "lab", until=world.now + 10)
    assert world.state.pools["lab"] == replace(
        PARENT, paused_by="ann", paused_since=AT, paused_reason="moves", paused_until=11.0
    )
    (reason,) = why(world.state, id)[0].reasons
    assert str(reason) == (
        "pool lab was paused at 2027-01-15 08:00:00 UTC until 1970-01-01 00:00:11 UTC (moves); "
        "ask an administrator to run `runrig pool resume lab`"
    )
    with pytest.raises(Conflict, match=r"pool lab is paused already, by ann since .* until 1970-01-01 00:00:11 UTC"):
        pause(world, "lab", until=11.0)
    pause(world, "lab")
    world.now = 20
    assert (world.cycle(), next_deadline(world.state)) == ([], None)
    resume(world, "lab")
    assert world.cycle() == ["admit w"]


def test_nothing_is_due_after_a_pool_was_deleted_or_resumed_before_the_end_of_its_pause() -> None:
    world = World({"lab": PARENT, "free": 1}, {"n0": 4})
    pause(world, "lab", until=10)
    world.do(*pools.delete_pool(world.state, "lab").actions)
    pause(world, "free", until=10)
    resume(world, "free")
    assert next_deadline(world.state) is None
    world.now = 10
    assert (world.cycle(), world.state.pools["lab"].state.value) == ([], "ARCHIVED")


@pytest.mark.parametrize("paused", ["lab", "lab--a"])
def test_neither_an_edit_nor_a_file_pauses_or_resumes_it(paused: str) -> None:
    """S5, S8."""
    world = lab()
    pause(world, paused)
    marks = {name: pool.paused_by for name, pool in world.state.pools.items()}
    assert {name for name, by in marks.items() if by is not None} == {paused}
    world.do(*pools.put_pool(world.state, replace(PARENT, weight=2), create=False).actions)
    world.do(*pools.put_pool(world.state, replace(SUB, quotas=gpu_quota(1)), create=False).actions)
    file = ClusterSpec(flavors=tuple(world.state.flavors.values()), pools=(replace(PARENT, grace_s=1.0), SUB))
    world.do(*pools.declare(world.state, file).actions)
    assert {name: pool.paused_by for name, pool in world.state.pools.items()} == marks
    assert not pools.declare(world.state, file).actions


def test_a_pool_that_is_deleted_while_it_is_paused_is_archived_and_comes_back_unpaused() -> None:
    world = World({"lab": PARENT}, {"n0": 4})
    world.submit("w", "lab")
    pause(world, "lab")
    world.do(*pools.delete_pool(world.state, "lab").actions)
    assert world.state.pools["lab"].state.value == "ARCHIVED"
    world.do(*pools.put_pool(world.state, PARENT, create=True).actions)
    assert world.state.pools["lab"] == PARENT


def test_impossible_pauses_and_resumes_are_refused_with_the_reason() -> None:
    world = lab()
    pause(world, "lab")
    with pytest.raises(
        Conflict,
        match=r"pool lab is paused already, by ann since 2027-01-15 08:00:00 UTC. Resume it with `runrig pool resume lab`",
    ):
        pausing.pause(world.state, "lab", user="bob", now=AT)
    with pytest.raises(
        Conflict, match=r"pool lab--a is paused through its parent lab. Resume both with `runrig pool resume lab`"
    ):
        pausing.resume(world.state, "lab--a")
    with pytest.raises(Conflict, match="pool free is not paused"):
        pausing.resume(world.state, "free")
    with pytest.raises(NotFound, match="unknown pool 'fre'"):
        pausing.pause(world.state, "fre", user="bob", now=AT)
    with pytest.raises(InvalidInput, match="the reason must be one line"):
        pausing.pause(world.state, "free", user="bob", now=AT, reason="two\nlines")
    with pytest.raises(InvalidInput, match="the pause would end at 2027-01-15 08:00:00 UTC, which has passed"):
        pausing.pause(world.state, "free", user="bob", now=AT, until=AT)
