"""Pools that are closed to submissions (rule S7)."""

from dataclasses import replace

import pytest

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused
from runrig.domain.pools import Pool
from runrig.engine.lifecycle import closing, pools
from runrig.engine.lifecycle.reassignments import reassign
from tests.worlds.engine import HIGH, World, gpu_quota, subpool

AT = 1_800_000_000.0
PARENT = Pool("lab", gpu_quota(4))
SUB = subpool("lab", "a", 2)


def lab(closed: str = "lab") -> World:
    """Pool lab with a subpool a, and a pool free. *closed* is closed, and w was submitted to it before."""
    world = World({"lab": PARENT, "free": 2}, {"n0": 6})
    world.do(*pools.put_pool(world.state, SUB, create=True).actions)
    world.submit("w", closed)
    world.do(*closing.close(world.state, closed, user="ann", now=AT, reason="it moves").actions)
    return world


@pytest.mark.parametrize("pool", ["lab", "lab--a"])
def test_a_rejected_submission_names_who_closed_the_pool_and_the_way_out(pool: str) -> None:
    world = lab()
    with pytest.raises(Refused) as caught:
        world.submit("late", pool)
    assert str(caught.value) == (
        "pool lab was closed to submissions by ann at 2027-01-15 08:00:00 UTC (it moves). Use another pool, or ask "
        "an administrator to run `runrig pool open lab`"
    )
    assert caught.value.details == {"law": "S7", "pool": "lab", "closed_by": "ann", "closed_since": AT}


def test_a_subpool_can_be_closed_alone() -> None:
    world = lab("lab--a")
    with pytest.raises(Refused, match="pool lab--a was closed"):
        world.submit("late", "lab--a")
    world.submit("other", "lab")
    assert sorted(world.cycle()) == ["admit other", "admit w"]


def test_queued_work_of_a_closed_pool_starts_and_may_leave_but_no_work_moves_in() -> None:
    world = lab()
    other = world.submit("other", "free")
    with pytest.raises(Refused, match="pool lab was closed"):
        reassign(world.state, other, pool="lab")
    world.do(*reassign(world.state, "w-1", priority=HIGH).actions)
    assert sorted(world.cycle()) == ["admit other", "admit w"]


def test_a_reopened_pool_accepts_submissions() -> None:
    world = lab()
    world.do(*closing.open_again(world.state, "lab").actions)
    assert world.state.pools["lab"] == PARENT
    world.submit("late", "lab--a")


@pytest.mark.parametrize("closed", ["lab", "lab--a"])
def test_edits_and_files_do_not_open_or_close_a_pool(closed: str) -> None:
    """S5, S7."""
    world = lab(closed)
    marks = {name: pool.closed_by for name, pool in world.state.pools.items()}
    assert {name for name, by in marks.items() if by is not None} == {closed}
    world.do(*pools.put_pool(world.state, replace(PARENT, weight=2), create=False).actions)
    world.do(*pools.put_pool(world.state, replace(SUB, quotas=gpu_quota(1)), create=False).actions)
    file = ClusterSpec(flavors=tuple(world.state.flavors.values()), pools=(replace(PARENT, grace_s=1.0), SUB))
    world.do(*pools.declare(world.state, file).actions)
    assert world.state.pools["lab"].grace_s == 1.0
    assert {name: pool.closed_by for name, pool in world.state.pools.items()} == marks
    assert not pools.declare(world.state, file).actions


def test_a_pool_that_is_deleted_and_created_again_is_open() -> None:
    world = World({"lab": PARENT})
    world.do(*closing.close(world.state, "lab", user="ann", now=AT).actions)
    world.do(*pools.delete_pool(world.state, "lab").actions)
    world.do(*pools.put_pool(world.state, PARENT, create=True).actions)
    assert world.state.pools["lab"] == PARENT


def test_pools_that_cannot_be_closed_or_opened_give_different_errors() -> None:
    world = lab()
    with pytest.raises(Conflict, match="pool lab was already closed by ann"):
        closing.close(world.state, "lab", user="bob", now=AT)
    with pytest.raises(
        Conflict, match=r"pool lab--a is closed through its parent lab. Reopen both with `runrig pool open lab`"
    ):
        closing.open_again(world.state, "lab--a")
    assert not closing.open_again(world.state, "free").actions
    with pytest.raises(NotFound, match="unknown pool 'fre'"):
        closing.close(world.state, "fre", user="bob", now=AT)
    with pytest.raises(InvalidInput, match="the reason must be one line"):
        closing.close(world.state, "free", user="bob", now=AT, reason="two\nlines")
