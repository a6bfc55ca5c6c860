"""Reasons if usage exceeds a quota or limit that was cut: they name the excess, never a negative remainder."""

import re

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.plan import PutCohort, PutPool
from runrig.domain.pools import Cohort, Pool
from runrig.domain.reasons import IN_USE_BY, Code, Reason
from runrig.domain.value import Amounts
from runrig.engine.explain.why import why
from tests.worlds.engine import World, gpu_quota, subpool

LOW, NORMAL = Priority.LOW, Priority.NORMAL


def over(world: World) -> list[tuple[str, str]]:
    """(sentence, headline) of each reason of `w`, without the pools that use the quota."""
    world.submit("w", "a", LOW if world.state.workflows["held-1"].priority is LOW else NORMAL, 2)
    world.cycle()
    (group,) = why(world.state, "w-1")
    return [(str(each).partition(IN_USE_BY)[0], each.headline) for each in group.reasons]


def held(world: World, priority: Priority, gpus: int) -> World:
    world.submit("held", "a", priority, gpus)
    world.cycle()
    assert world.state.ledger.entries["held-1/t-group"].admitted_at is not None
    return world


@pytest.mark.parametrize("who", ["pool a", "cohort k"])
def test_a_pool_or_cohort_above_its_borrowing_limit_names_the_excess(who: str) -> None:
    def limited(most: int) -> PutPool | PutCohort:
        if who == "pool a":
            return PutPool(Pool("a", gpu_quota(1, borrowing=most)))
        return PutCohort(Cohort("k", None, gpu_quota(0, borrowing=most)))

    world = World({"a": Pool("a", gpu_quota(1), cohort="k" if who == "cohort k" else None), "b": 4}, {"n0": 8})
    world.do(limited(3))
    held(world, LOW, 4)
    world.do(limited(1))
    sentence = f"needs 2 GPUs, but {who} is 2 GPUs over its borrowing limit"
    assert over(world) == [(sentence, f"borrowing limit: {who} is 2 GPUs over, needs 2")]


def test_a_pool_above_its_quota_names_the_excess() -> None:
    world = held(World({"a": 4, "b": 4}, {"n0": 8}), NORMAL, 4)
    world.do(PutPool(Pool("a", gpu_quota(3))))
    sentence = "needs 2 GPUs, but pool a is 1 GPU over its quota"
    gang = "held-1/t-group"
    older = f"waiting for {gang} to finish, which started before the quota of pool a was cut"
    assert (f"{sentence}; {older}", "quota: a is 1 GPU over, needs 2") in over(world)


@pytest.mark.parametrize("code", [Code.QUOTA_FULL, Code.BORROWING_LIMIT, Code.NO_IDLE_TO_BORROW])
@pytest.mark.parametrize(
    ("resource", "have", "shown"),
    [("h/gpu", -3, "3 GPUs"), ("h/memory", -(2**30), "1Gi memory"), ("h/cpu", -500, "0.5 CPU cores")],
)
@pytest.mark.parametrize("shared", [{}, {"k": 2}])
def test_no_remainder_is_negative(code: Code, resource: str, have: int, shown: str, shared: dict[str, int]) -> None:
    """In the unit of any resource, also if cohorts share the excess."""
    reason = Reason(code, "Q3", "pool a", resource, have, 1, shared=Amounts(shared))
    for said in (str(reason), reason.headline):
        assert re.search(r"-\d", said) is None
        assert f"is {shown} over" in said
    for there in (0, 1):
        assert " over " not in str(Reason(code, "Q3", "pool a", resource, there, 2, shared=Amounts(shared)))


def test_a_subpool_cannot_use_what_older_work_of_its_parent_still_uses() -> None:
    """P2, S2: both of its gangs fit in its own quota, but only one next to what all pools below the parent use."""
    world = held(World({"a": 6, "b": 4}, {"n0": 16}), NORMAL, 5)
    world.do(PutPool(subpool("a", "x", 2)))
    first, second = (world.submit(name, "a--x", NORMAL, 1) for name in ("first", "second"))
    world.cycle()
    reasons = [each.reasons for name in (first, second) for each in why(world.state, name)]
    assert [len(each) for each in reasons] == [0, 1]
    assert (reasons[1][0].code, reasons[1][0].where, reasons[1][0].have) == (Code.QUOTA_FULL, "a", 0)
