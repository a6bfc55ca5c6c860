"""The tree changes while work runs: usage beyond its limits is shown, stops nothing and blocks new work (rules Q3-Q7,
R7).
"""

from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, NotFound
from runrig.domain.nodes import Flavor
from runrig.domain.plan import DropCohort, Plan, PutCohort, PutNode
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.shown.pools import Balance
from runrig.domain.shown.pools import Cohort as Node
from runrig.engine.explain.quota_report import balances_of_pool, overpromised, tree_rows
from runrig.engine.lifecycle import pools
from tests.worlds.engine import GPUS, HIGH, LOW, NORMAL, World, gpu_quota, subpool


def changed(world: World, plan: Plan) -> None:
    world.do(*plan.actions)


def put_cohort(world: World, cohort: Cohort) -> None:
    changed(world, pools.put_cohort(world.state, cohort, create=cohort.name not in world.state.cohorts))


def put_pool(world: World, pool: Pool) -> None:
    changed(world, pools.put_pool(world.state, pool, create=False))


def rows_of(world: World) -> tuple[Node, ...]:
    """All rows; the balances of a single pool are the same."""
    rows = tree_rows(world.state)
    pools = [row for row in rows if row.kind == "pool"]
    assert [balances_of_pool(world.state, row.name) for row in pools] == [row.balances for row in pools]
    return rows


def balance(world: World, name: str, kind: str = "pool") -> Balance:
    return next(row.balances[str(GPUS)] for row in rows_of(world) if (row.kind, row.name) == (kind, name))


def overs(world: World) -> dict[str, int]:
    """The excess by name."""
    return {row.name: row.balances[str(GPUS)].over for row in rows_of(world) if row.balances[str(GPUS)].over}


def org() -> World:
    """Two labs on 8 GPUs: `left` has 4 and lends, `right` has 4 and a pool that has borrowed 2 of `left`."""
    cohorts = (Cohort("org"), Cohort("left", "org"), Cohort("right", "org"))
    lab = {"a": Pool("a", gpu_quota(4), cohort="left"), "b": Pool("b", gpu_quota(4), cohort="right")}
    world = World(lab, {"n0": 8}, cohorts=cohorts)
    for name, gpus in (("low", 4), ("more", 2)):
        world.submit(name, "b", LOW, gpus)
        assert world.cycle() == [f"admit {name}"]
    world.cycle()
    return world


# ---------------------------------------------------------------- what is reported


def test_the_tree_shows_who_borrows_from_whom_as_far_as_sums_allow() -> None:
    """Q3, Q4."""
    world = org()
    limits: dict[str, Any] = {"borrowing_limit": None, "lending_limit": None}
    whole = Balance(
        nominal=0,
        local=0,
        subtree=8,
        used=0,
        drawn=0,
        usage=6,
        total=6,
        balance=2,
        headroom=2,
        potential=8,
        over=0,
        borrowed=0,
        lent=0,
        **limits,
    )
    lender = replace(whole, subtree=4, usage=0, total=0, balance=4, lent=2)
    debtor = replace(whole, subtree=4, balance=-2, borrowed=2)
    assert {row.name: row.balances[str(GPUS)] for row in rows_of(world)} == {
        "": whole,
        "org": whole,
        "left": lender,
        "right": debtor,
        "a": replace(lender, nominal=4),
        "b": replace(debtor, nominal=4),
    }


def test_no_node_is_shown_to_lend_more_than_its_limits_allow() -> None:
    """A cohort that lends nothing outside cannot be the source of another's GPUs, although its pool comes first by
    name.
    """
    cohorts = (Cohort("closed", None, gpu_quota(0, lending=0)), Cohort("open"))
    lab = {
        "a": Pool("a", gpu_quota(2), cohort="closed"),
        "b": Pool("b", gpu_quota(2), cohort="open"),
        "z": Pool("z", gpu_quota(0)),
    }
    world = World(lab, {"n0": 4}, cohorts=cohorts)
    world.submit("low", "z", LOW, 2)
    assert world.cycle() == ["admit low"]
    assert {name: balance(world, name).lent for name in "abz"} == {"a": 0, "b": 2, "z": 0}


def test_capacity_without_guarantee_is_lent_before_idle_pools_lend() -> None:
    """Q8."""
    world = World({"a": 2, "z": 0}, {"n0": 4})
    world.submit("low", "z", LOW, 3)
    assert world.cycle() == ["admit low"]
    assert [balance(world, "a").lent, balance(world, "", "root").nominal] == [1, 2]


def test_quotas_beyond_the_capacity_are_shown() -> None:
    """Q8; nodes that are down count."""
    world = World({"a": 5}, {"n0": 4})
    assert overpromised(world.state) == {GPUS: 1}
    world.do(PutNode(replace(world.state.nodes["n0"], ready=False)))
    assert overpromised(world.state) == {GPUS: 1}
    put_pool(world, Pool("a", gpu_quota(4)))
    assert overpromised(world.state) == {}


# ---------------------------------------------------------------- over-committed trees


def test_a_quota_cut_below_guaranteed_usage_stops_nothing_and_blocks_new_work() -> None:
    """Q4, R7."""
    world = World({"a": 4, "b": 4}, {"n0": 8})
    for name in ("w1", "w2", "w3"):
        world.submit(name, "a", NORMAL, 1)
    assert len(world.cycle()) == 3
    world.cycle()
    put_pool(world, Pool("a", gpu_quota(1)))
    assert overs(world) == {"a": 2}
    world.submit("next", "a", HIGH, 1)
    world.submit("other", "b", NORMAL, 4)
    assert world.cycle() == ["admit other"]
    assert world.running() == {"w1-1", "w2-1", "w3-1", "other-1"}
    for name in ("w1-1", "w2-1"):
        world.finish(name)
    assert world.cycle() == []
    assert overs(world) == {}
    world.finish("w3-1")
    assert world.cycle() == ["admit next"]


def test_a_moved_cohort_keeps_its_running_work() -> None:
    """R7: `right` leaves the tree from which its pool has borrowed, and cannot borrow in the new one."""
    world = org()
    put_cohort(world, Cohort("other", None, gpu_quota(0, borrowing=0)))
    put_cohort(world, Cohort("right", "other"))
    assert world.running() == {"low-1", "more-1"}
    assert overs(world) == {"other": 2}
    assert [balance(world, name).headroom for name in "ab"] == [2, -2]
    world.submit("next", "b", LOW, 1)
    world.submit("mine", "a", NORMAL, 2)
    assert world.cycle() == ["admit mine"]
    world.finish("more-1")
    assert world.cycle() == []
    world.finish("low-1")
    assert world.cycle() == ["admit next"]
    assert overs(world) == {}


def test_a_lender_reclaims_from_a_tree_that_became_too_small() -> None:
    """R2: the edit does not stop work, but the lender that needs its own quota does."""
    world = org()
    put_cohort(world, Cohort("right", "org", gpu_quota(0, borrowing=0)))
    assert overs(world) == {"right": 2}
    assert world.cycle() == []
    world.submit("mine", "a", NORMAL, 4)
    assert world.cycle() == ["nominate mine", "preempt more for mine (RECLAIM)"]
    world.cycle()
    assert overs(world) == {}


def test_removing_a_limit_starts_the_work_that_it_blocked() -> None:
    world = World(
        {"a": Pool("a", gpu_quota(4), cohort="lab"), "b": Pool("b", gpu_quota(0), cohort="lab2")},
        {"n0": 4},
        cohorts=(Cohort("lab2", None, gpu_quota(0, borrowing=1)), Cohort("lab", None, gpu_quota(0, lending=3))),
    )
    for name in ("w1", "w2", "w3", "w4"):
        world.submit(name, "b", LOW, 1)
    assert world.cycle() == ["admit w1"]
    put_cohort(world, Cohort("lab2"))
    assert world.cycle() == ["admit w2", "admit w3"]
    put_cohort(world, Cohort("lab"))
    assert world.cycle() == ["admit w4"]


# ---------------------------------------------------------------- cycles, and cohorts that are only named


def test_an_existing_cycle_is_shown_at_each_node_and_ends_with_one_edit() -> None:
    """Q5."""
    world = World({"p": Pool("p", gpu_quota(2), cohort="x"), "q": 2}, {"n0": 4})
    world.submit("w", "p", NORMAL, 1)
    assert world.cycle() == ["admit w"]
    world.do(PutCohort(Cohort("x", "y")), PutCohort(Cohort("y", "x")))
    rows = {row.name: (row.active, row.balances[str(GPUS)].total) for row in rows_of(world)}
    assert rows == {"": (True, 0), "x": (False, 1), "y": (False, 1), "p": (False, 1), "q": (True, 0)}
    assert balance(world, "p").headroom == 0
    world.submit("v", "p", NORMAL, 1)
    assert world.cycle() == []
    put_cohort(world, Cohort("y"))
    assert world.cycle() == ["admit v"]


def test_a_cohort_with_children_is_deleted_only_if_they_may_stay() -> None:
    """Q6, R7."""
    world = org()
    with pytest.raises(
        Conflict, match=r"cohort right has children: b. Move or delete them first, or use --leave-children"
    ):
        pools.delete_cohort(world.state, "right")
    changed(world, pools.delete_cohort(world.state, "right", leave_children=True))
    row = next(each for each in rows_of(world) if each.name == "right")
    assert (row.declared, row.parent, row.balances[str(GPUS)].total) == (False, None, 6)
    assert world.running() == {"low-1", "more-1"}
    with pytest.raises(NotFound, match="is not declared: it exists only as long as others refer to it"):
        pools.delete_cohort(world.state, "right")


def pruned(world: World, *cohorts: Cohort, pools_: tuple[Pool, ...] = ()) -> list[str]:
    """The cohorts that are pruned if all came from a file that now contains only these."""
    spec = ClusterSpec(flavors=(Flavor("default"),), cohorts=cohorts, pools=pools_)
    plan = pools.declare(world.state, spec, prune=[f"cohort/{name}" for name in world.state.cohorts])
    return [action.before.name for action in plan.actions if isinstance(action, DropCohort)]


def test_a_cohort_is_not_pruned_while_something_outside_the_file_is_below_it() -> None:
    """Q6: `b` was created by hand, so it keeps its parent."""
    world = org()
    assert pruned(world, pools_=(Pool("a", gpu_quota(4)),)) == ["left"]
    assert pruned(world, pools_=(Pool("a", gpu_quota(4)), Pool("b", gpu_quota(4)))) == ["right", "left", "org"]


def test_a_limit_without_a_quota_means_a_quota_of_zero() -> None:
    """Q2: a cohort may have only limits."""
    world = World({"p": Pool("p", {}, cohort="k")}, {"n0": 4}, cohorts=(Cohort("k", None, {GPUS: Quota(0, 3)}),))
    assert [balance(world, "p").headroom, balance(world, "k", "cohort").headroom] == [3, 3]


def test_a_parent_pool_exceeds_its_quota_by_what_a_subpool_uses_beyond_its_new_share() -> None:
    """P2, S2: by the sum of both, although its own share is not used up."""
    world = World({"t": 6, "t--a": subpool("t", "a", 5), "z": 2}, {"n0": 8})
    world.submit("w", "t--a", NORMAL, 5)
    assert world.cycle() == ["admit w"]
    world.cycle()
    put_pool(world, subpool("t", "a", 3))
    assert overs(world) == {"t--a": 2}
    world.submit("v", "t", NORMAL, 1)
    world.submit("u", "t", NORMAL, 1)
    assert world.cycle() == ["admit v"]
    put_pool(world, Pool("t", gpu_quota(5)))
    assert overs(world) == {"t--a": 2, "t": 1}
    assert world.cycle() == []
