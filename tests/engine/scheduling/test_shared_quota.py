"""A cohort's own quota is shared by its pools: which work starts, which is reclaimed, which never is (rules P2, P3, R2,
R7).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.errors import Refused
from runrig.domain.gangs import GangState, Priority
from runrig.domain.plan import Nominate, PutCohort, PutPool
from runrig.domain.pools import Cohort, Pool
from runrig.domain.reasons import Code, Reason
from runrig.domain.value import Amounts
from runrig.engine import cycle
from runrig.engine.explain.quota_report import tree_rows
from runrig.engine.explain.report import pool_balance
from runrig.engine.explain.why import why
from runrig.engine.ledger.options import options
from runrig.engine.quota.quota_node import within_promise
from runrig.engine.state.state import State
from tests.engine.preemption.test_preemption import started
from tests.properties.machine import check_nomination
from tests.properties.oracle import Oracle
from tests.worlds.engine import GPUS, HIGH, LOW, NORMAL, World, gpu_quota, subpool


def research(own: int = 6, pools: dict[str, Pool | int] | None = None, nodes: dict[str, int] | None = None) -> World:
    """Pools of 2 and 4 under a cohort with *own*, and one of 4 elsewhere."""
    mine: dict[str, Pool | int] = {
        "a": Pool("a", gpu_quota(2), cohort="research"),
        "b": Pool("b", gpu_quota(4), cohort="research"),
        "else": 4,
    }
    return World(mine | (pools or {}), nodes or {"n0": 16}, (Cohort("research", None, gpu_quota(own)),))


def test_drawn_quota_counts_as_used_and_is_not_preempted() -> None:
    world = started(research(), ("w", "a", NORMAL, 8), ("mine", "b", NORMAL, 4))
    balance = pool_balance(world.state, "a")
    assert (balance.used, balance.available, balance.borrowed) == (8, 0, 0)
    assert (dict(balance.shared), balance.drawn, balance.shared_left) == ({"research": 6}, 6, 0)
    world.submit("more", "b", HIGH, 1)
    assert world.cycle() == []


def test_the_cohorts_quota_is_reclaimed_from_low_in_any_branch() -> None:
    world = started(research(), ("own", "a", LOW, 2), ("near", "b", LOW, 7), ("far", "else", LOW, 7))
    world.submit("w", "a", NORMAL, 8)
    assert world.cycle() == ["nominate w", "preempt near for w (RECLAIM)", "preempt far for w (RECLAIM)"]


def test_a_borrowing_limit_of_0_blocks_shared_quota() -> None:
    world = research(pools={"a": Pool("a", gpu_quota(2, borrowing=0), cohort="research")})
    with pytest.raises(Refused) as refused:
        world.submit("w", "a", NORMAL, 3)
    assert str(refused.value) == ("w needs 3 GPUs, but pool a has a quota of 2 GPUs. Request less")


def test_the_gate_counts_shared_quota_and_names_its_cohort() -> None:
    """P3."""
    world = research()
    with pytest.raises(Refused) as refused:
        world.submit("w", "a", NORMAL, 9)
    assert str(refused.value) == (
        "w needs 9 GPUs, but pool a has a quota of 8 GPUs (2 of its own, 6 shared by research). "
        "Request less or submit with priority LOW to borrow"
    )
    assert refused.value.details == {
        "law": "P3",
        "pool": "a",
        "resource": "default/gpu",
        "asked": 9,
        "limit": 8,
        "shared": {"research": 6},
    }


def test_the_gate_names_what_a_parent_pool_has_unallocated_and_what_is_shared() -> None:
    half = subpool("b", "x", 3, cohort="research")
    world = research(pools={"b--x": half})
    with pytest.raises(Refused) as refused:
        world.submit("w", "b", NORMAL, 8)
    assert str(refused.value) == (
        "w needs 8 GPUs, but pool b has 1 unallocated (1 subpool has 3 of its 4 GPUs), "
        "6 shared by research. Request less or submit with priority LOW to borrow"
    )


def test_why_names_what_is_left_of_both_and_who_draws_on_it() -> None:
    world = started(research(), ("w", "a", NORMAL, 1), ("big", "b", NORMAL, 8))
    world.submit("in", "a", NORMAL, 4)
    world.cycle()
    holders = ("big-1/t-group", "w-1/t-group")
    reason = Reason(Code.QUOTA_FULL, "P2", "a", "default/gpu", 3, 4, holders, own=2, shared=Amounts({"research": 6}))
    assert why(world.state, "in-1")[0].reasons == (reason,)
    assert str(reason) == (
        "needs 4 GPUs, but pool a has only 3 GPUs left of its guaranteed 8 GPUs (2 of its own, 6 shared by research); "
        "in use by big-1/t-group and w-1/t-group"
    )


def test_cutting_a_cohort_stops_nothing_and_only_new_drawing_work_waits() -> None:
    """R7, Q4."""
    world = started(research(), ("w", "a", NORMAL, 7))
    world.do(PutCohort(Cohort("research", None, gpu_quota(3))))
    balance = pool_balance(world.state, "a")
    assert (balance.used, balance.drawn, balance.available, balance.shared_left) == (7, 3, -2, 0)
    over = {(row.kind, row.name): row.balances[str(GPUS)].over for row in tree_rows(world.state)}
    assert over == {("root", ""): 0, ("cohort", "research"): 2, ("pool", "a"): 2, ("pool", "b"): 0, ("pool", "else"): 0}
    world.submit("own", "b", NORMAL, 4)
    assert world.cycle() == ["admit own"]
    world.submit("draws", "b", NORMAL, 1)
    assert world.cycle() == []
    assert world.running() == {"w-1", "own-1"}


def test_cutting_a_pool_moves_its_running_work_to_shared_quota() -> None:
    """R7."""
    world = started(research(), ("w", "b", NORMAL, 4))
    world.do(PutPool(Pool("b", gpu_quota(1), cohort="research")))
    assert pool_balance(world.state, "b").drawn == 3
    world.submit("rest", "a", NORMAL, 5)
    assert world.cycle() == ["admit rest"]
    world.submit("more", "a", NORMAL, 1)
    assert world.cycle() == []


def test_low_work_that_makes_a_drawing_pool_borrow_wakes_gangs_without_targets() -> None:
    """R2: team uses its 6 and the 2 that it draws, so its LOW is safe until more of it starts."""
    parts = {
        short: Pool(f"team--{short}", gpu_quota(gpus), cohort="research", parent="team", subpool_name=short)
        for short, gpus in (("a", 1), ("b", 1), ("c", 2))
    }
    team = {"team": Pool("team", gpu_quota(6), cohort="research"), **{part.name: part for part in parts.values()}}
    world = World({**team, "else": 4}, {"n0": 4, "n1": 6, "n2": 1}, (Cohort("research", None, gpu_quota(4)),))
    started(world, ("firm", "team--a", NORMAL, 3), ("own", "team", LOW, 3), ("inner", "team--b", LOW, 2))
    world.submit("in", "else", NORMAL, 3)
    assert world.cycle() == []
    world.submit("last", "team--c", LOW, 1)
    assert world.cycle() == ["admit last"]
    assert world.cycle() == ["nominate in", "preempt inner for in (RECLAIM)"]


# ---------------------------------------------------------------- guarantees are kept

sizes = st.tuples(st.sampled_from(("a", "b", "b--x", "c", "else")), st.integers(1, 4))
limits = st.sampled_from((None, None, 0, 2))


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.tuples(limits, limits, limits),
    st.lists(sizes, max_size=7),
    st.lists(sizes, min_size=1, max_size=4),
)
def test_guaranteed_work_starts_exactly_within_its_guarantee_and_reclaims_no_more_than_needed(
    own: tuple[int, int],
    borrowing: tuple[int | None, int | None, int | None],
    low: list[tuple[str, int]],
    firm: list[tuple[str, int]],
) -> None:
    """P2, R2, R3: only quota matters; LOW uses what it could get before."""
    world = World(
        {
            "a": Pool("a", gpu_quota(2, borrowing[0]), cohort="research"),
            "b": Pool("b", gpu_quota(3, borrowing[1]), cohort="research"),
            "b--x": subpool("b", "x", 1, cohort="research"),
            "c": Pool("c", gpu_quota(1), cohort="org"),
            "else": 3,
        },
        cohorts=(Cohort("org", None, gpu_quota(own[0])), Cohort("research", "org", gpu_quota(own[1], borrowing[2]))),
    )
    for number, (pool, gpus) in enumerate(low):
        _submitted(world, f"low{number}", pool, LOW, gpus)
    world.cycle()
    for number, (pool, gpus) in enumerate(firm):
        if not _submitted(world, f"firm{number}", pool, NORMAL, gpus):
            continue
        ledger = world.state.ledger
        entry = ledger.entries[f"firm{number}-1/t-group"]
        ((_, request),) = options(ledger, entry, (1,))
        promised = within_promise(ledger.leaf(entry), request)
        _checked_cycle(world)
        assert (entry.state is not GangState.PENDING) == promised
        world.cycle()
        assert (entry.state is GangState.ADMITTED) == promised


def _checked_cycle(world: World) -> None:
    """An independent check that the targets are not safe, are enough, and are all needed."""
    before = State.load(world.state.rows())
    world.now += 1
    for action in cycle.run(world.state, world.observe(), world.now).actions:
        if isinstance(action, Nominate):
            check_nomination(before, action.gang, action.placement, action.targets)
            gang = before.ledger.entries[action.gang].gang
            for name in action.targets:
                others = [other for other in action.targets if other != name]
                assert not Oracle.decided(before, without=others).allows(gang, action.placement), f"{name} could stay"


def _submitted(world: World, name: str, pool: str, priority: Priority, gpus: int) -> bool:
    try:
        world.submit(name, pool, priority, gpus)
    except Refused:
        return False
    return True
