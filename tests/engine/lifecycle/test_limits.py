"""Limits of pools: GPUs of one workflow, and waiting workflows of one user (rule W6)."""

from dataclasses import replace

import pytest

from runrig.domain.changes import Who
from runrig.domain.errors import Refused
from runrig.domain.limits import EVERYWHERE
from runrig.domain.pools import Pool
from runrig.domain.steps import drained
from runrig.domain.workflow_status import WorkflowStatus
from runrig.engine.foresight.would_start import starting_changes
from runrig.engine.lifecycle import holds, pausing, pools
from runrig.engine.lifecycle.reassignments import reassign
from runrig.engine.state.state import State
from tests.worlds.engine import HIGH, LOW, NORMAL, World, gpu_quota, subpool, task, workflow

LAB = Pool("lab", gpu_quota(2), user_waiting=2, gpus_per_workflow=3)
SUB = subpool("lab", "a", 1)


def lab(**others: Pool | int) -> World:
    """Pool lab with a subpool a, and *others*, on 2 GPUs."""
    world = World({"lab": LAB, **others}, {"n0": 2})
    world.do(*pools.put_pool(world.state, SUB, create=True).actions)
    return world


def refused(world: World, name: str, pool: str, **said: object) -> Refused:
    before = world.state.rows()
    with pytest.raises(Refused) as caught:
        world.submit(name, pool, **said)  # type: ignore[arg-type]
    del world.state.specs[f"hash of {name}"]
    assert world.state.rows() == before
    return caught.value


def test_gpus_of_all_groups_and_pods_count() -> None:
    world = World({"lab": replace(LAB, quotas=gpu_quota(9))})
    world.submit("fits", "lab", spec=workflow("fits", task("x", 1), task("y", 2), upstream={"y": ("x",)}))
    error = refused(world, "large", "lab", spec=workflow("large", task("x", 2), task("y", 2), upstream={"y": ("x",)}))
    assert str(error) == (
        "large needs 4 GPUs in all of its task groups, but pool lab allows at most 3 GPUs in one workflow. Request less, or use "
        "another pool"
    )
    assert error.details == {"law": "W6", "pool": "lab", "resource": "gpu", "asked": 4, "limit": 3}


def test_waiting_workflows_of_a_user_are_counted_in_the_pool_and_its_subpools() -> None:
    world = lab(free=0)
    first = world.submit("first", "lab", LOW, 2)
    world.cycle()
    world.cycle()
    world.submit("b", "lab", HIGH)
    held = world.submit("c", "lab--a")
    world.do(*holds.put_on_hold(world.state, held, user="u").actions)
    for pool in ("lab", "lab--a"):
        error = refused(world, "d", pool, priority=LOW)
        assert str(error) == (
            "u already has 2 workflows waiting in pool lab, which allows 2 for each user. Wait until one of them starts, or "
            "cancel one"
        )
        assert error.details == {"law": "W6", "pool": "lab", "user": "u", "waiting": 2, "limit": 2}
    world.submit("elsewhere", "free", LOW)
    world.cancel(held)
    world.submit("d", "lab", LOW)
    assert world.state.waiting["lab", "u"] == 2
    assert State.load(world.state.rows()).waiting == +world.state.waiting
    world.finish(first)
    world.cycle()
    world.cycle()
    assert world.state.waiting["lab", "u"] == 0


def test_another_user_may_still_submit() -> None:
    world = lab()
    for name in ("a", "b"):
        world.submit(name, "lab")
    refused(world, "c", "lab")
    world.submit("c", "lab", user="v")


def test_preempted_work_counts_and_is_never_refused() -> None:
    world = World({"lab": LAB, "free": 0}, {"n0": 2})
    low = world.submit("low", "lab", LOW, 2)
    world.cycle()
    world.cycle()
    for name in ("firm", "next"):
        world.submit(name, "lab", NORMAL, 2)
    for _ in range(3):
        world.cycle()
    assert world.state.workflows["firm-1"].status is WorkflowStatus.RUNNING
    assert world.state.workflows[low].status is WorkflowStatus.PENDING
    assert world.state.waiting["lab", "u"] == 2
    refused(world, "late", "lab")


def test_moves_are_checked_between_top_level_pools_only() -> None:
    world = lab(free=4)
    for name in ("a", "b"):
        world.submit(name, "lab")
    world.do(*reassign(world.state, "a-1", pool="lab--a").actions)
    world.do(*reassign(world.state, "b-1", priority=LOW).actions)
    comes = world.submit("comes", "free")
    with pytest.raises(Refused, match="u already has 2 workflows waiting in pool lab"):
        reassign(world.state, comes, pool="lab--a")
    large = world.submit("large", "free", spec=workflow("large", task("x", 2), task("y", 2)))
    with pytest.raises(Refused, match="large-1 needs 4 GPUs in all of its task groups"):
        reassign(world.state, large, pool="lab")
    world.do(*reassign(world.state, "b-1", pool="free").actions)
    world.do(*reassign(world.state, comes, pool="lab").actions)
    assert +world.state.waiting == {("lab", "u"): 2, ("free", "u"): 2, (EVERYWHERE, "u"): 4}


def test_a_change_of_pool_that_a_limit_refuses_is_not_suggested() -> None:
    found = []
    for most in (1, 2):
        world = World({"full": 2, "lab": replace(LAB, gpus_per_workflow=most)}, {"n0": 4})
        world.submit("runs", "full", NORMAL, 2)
        world.submit("w", "full", NORMAL, 2)
        assert world.cycle() == ["admit runs"]
        ((_, foreseen),) = drained(starting_changes(world.state, "w-1", ("full", "lab"), [Who.OWNER], 1, world.now))
        found.append("lab" in str(foreseen.answers))
    assert found == [False, True]


def test_lower_limits_stop_nothing_and_queue_positions_are_kept() -> None:
    world = World({"lab": replace(LAB, user_waiting=None, gpus_per_workflow=None)}, {"n0": 2})
    for name in ("a", "b", "c"):
        world.submit(name, "lab", NORMAL, 2)
    assert world.cycle() == ["admit a"]
    world.do(*pools.put_pool(world.state, replace(LAB, user_waiting=1, gpus_per_workflow=1), create=False).actions)
    world.do(*pausing.pause(world.state, "lab", user="u", now=1.0).actions)
    world.do(*pausing.resume(world.state, "lab").actions)
    world.finish("a-1")
    assert world.cycle() == ["admit b"]
    refused(world, "d", "lab")
