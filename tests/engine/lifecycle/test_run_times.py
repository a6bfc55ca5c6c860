"""Run time limits of pools (rule P6)."""

from dataclasses import replace

import pytest

from runrig.domain.errors import InvalidInput, Refused
from runrig.domain.plan import PutPool
from runrig.domain.pools import Pool
from runrig.domain.workflows import WorkflowSpec
from runrig.engine.lifecycle import pools
from runrig.engine.lifecycle.reassignments import reassign
from tests.worlds.engine import World, gpu_quota, pools_put, subpool, task, workflow

LAB = Pool("lab", gpu_quota(4), max_run_time_s=3600.0)


def running(seconds: float | None) -> WorkflowSpec:
    return replace(workflow("w", task("t")), exec_timeout_s=seconds)


@pytest.mark.parametrize(
    ("seconds", "wants"), [(3600.25, "has a time limit of 3600250ms"), (None, "has no time limit")]
)
def test_exceeding_the_maximum_is_rejected_with_both_numbers_and_a_way_out(seconds: float | None, wants: str) -> None:
    world = World({"lab": LAB})
    with pytest.raises(Refused) as caught:
        world.submit("w", "lab", spec=running(seconds))
    assert not world.state.workflows
    assert f" {wants}, " in str(caught.value)
    assert caught.value.details == {"law": "P6", "pool": "lab", "asked": seconds, "limit": 3600.0}


def test_exactly_the_maximum_is_accepted() -> None:
    world = World({"lab": LAB}, {"n0": 4})
    world.submit("w", "lab", spec=running(3600.0))
    assert world.cycle() == ["admit w"]


@pytest.mark.parametrize("seconds", [None, 7200.0])
def test_moves_are_checked_too(seconds: float | None) -> None:
    world = World({"free": 4, "lab": LAB})
    id = world.submit("w", "free", spec=running(seconds))
    with pytest.raises(Refused, match=r"w-1 .* pool lab allows at most 1h"):
        reassign(world.state, id, pool="lab")


def test_accepted_workflows_keep_their_limit() -> None:
    """R7."""
    world = World({"lab": 4}, {"n0": 4})
    world.submit("w", "lab", spec=running(7200.0))
    world.cycle()
    world.do(*pools.put_pool(world.state, LAB, create=False).actions)
    world.now += 7000
    assert (world.cycle(), len(world.state.workflows)) == ([], 1)


def test_subpools_have_the_run_times_of_their_parent() -> None:
    """S5."""
    world = World({"lab": Pool("lab", gpu_quota(4))})
    sub = subpool("lab", "a", 2)
    world.do(*pools.put_pool(world.state, sub, create=True).actions)
    changed = replace(LAB, default_run_time_s=60.0)
    plan = pools.put_pool(world.state, changed, create=False)
    assert [(each.name, each.default_run_time_s, each.max_run_time_s) for each in pools_put(plan.actions)] == [
        ("lab", 60.0, 3600.0),
        ("lab--a", 60.0, 3600.0),
    ]
    world.do(*plan.actions)
    with pytest.raises(Refused, match="pool lab--a allows at most 1h"):
        world.submit("w", "lab--a", spec=running(3601.0))


@pytest.mark.parametrize(
    ("default", "most", "wrong"),
    [
        (0.0, None, "a run time must be greater than 0"),
        (None, -1.0, "a run time must be greater than 0"),
        (61.0, 60.0, "the default run time 61s exceeds the maximum of 1m"),
    ],
)
def test_invalid_run_times_are_rejected(default: float | None, most: float | None, wrong: str) -> None:
    world = World({"lab": 4})
    with pytest.raises(InvalidInput, match=wrong):
        pools.put_pool(world.state, replace(LAB, default_run_time_s=default, max_run_time_s=most), create=False)


@pytest.mark.parametrize(
    ("default", "most", "usual"), [(None, None, None), (60.0, None, 60.0), (None, 90.0, 90.0), (60.0, 90.0, 60.0)]
)
def test_the_usual_run_time_is_the_default_or_the_maximum(
    default: float | None, most: float | None, usual: float | None
) -> None:
    assert PutPool(replace(LAB, default_run_time_s=default, max_run_time_s=most)).pool.usual_run_time_s == usual
