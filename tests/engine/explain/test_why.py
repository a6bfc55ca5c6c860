"""Why a workflow is waiting: the rule, the place, the numbers and the sentence."""

from dataclasses import replace

import pytest

from runrig.domain.blockers import Blocker, QuotaLeft, Tier, Verdict
from runrig.domain.gangs import Requirement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import PutCohort, PutNode
from runrig.domain.pools import HOSTNAME, Cohort, Pool, Quota, TopologyKey
from runrig.domain.quantities import CPU, GPU, FlavorResource, requests_of
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.why import GroupWhy
from runrig.domain.value import Amounts
from runrig.domain.workflows import Status
from runrig.engine.explain.why import why
from runrig.engine.placement import best_fit, exact_search
from tests.worlds.engine import HIGH, LOW, NORMAL, STRICT, World, gpu_quota, task, workflow


def reasons(world: World, name: str) -> tuple[Reason, ...]:
    """The reasons without the pools involved."""
    return tuple(replace(each, concerned=()) for each in why(world.state, f"{name}-1")[0].reasons)


def blocked(world: World, name: str) -> list[tuple[str, str, str, int, int]]:
    """Tier, code, where, have and need of all blockers."""
    found = why(world.state, f"{name}-1")[0].blockers
    told = [(each.tier.value, each.reason) for each in found]
    return [(tier, reason.code.value, reason.where, reason.have, reason.need) for tier, reason in told]


def concerned(world: World, name: str) -> list[list[tuple[str, str | None, int]]]:
    """The pools involved, per blocker."""
    found = why(world.state, f"{name}-1")[0].blockers
    return [[(each.part.value, each.name, each.amount) for each in blocker.reason.concerned] for blocker in found]


def said(world: World, name: str) -> list[str]:
    return [str(each) for each in reasons(world, name)]


def test_a_full_quota_names_what_is_left_and_its_users() -> None:
    """P2."""
    world = World({"a": 4}, {"n0": 8})
    world.submit("big", "a", NORMAL, 2)
    world.submit("small", "a", HIGH, 1)
    world.cycle()
    world.submit("w", "a", NORMAL, 2)
    world.cycle()
    holders = ("big-1/t-group", "small-1/t-group")
    assert reasons(world, "w") == (Reason(Code.QUOTA_FULL, "P2", "a", "default/gpu", 1, 2, holders),)


def test_a_gang_that_can_shrink_lacks_quota_for_its_minimum_size() -> None:
    """A1: 8 are more than the pool can ever have, and it starts as soon as there are 3."""
    world = World({"a": 5}, {"n0": 5})
    world.submit("big", "a", NORMAL, 3)
    world.cycle()
    world.submit("w", "a", NORMAL, spec=workflow("w", task("t", 1, count=8, minimum=3)))
    world.cycle()
    assert said(world, "w") == [
        "needs at least 3 GPUs, but pool a has only 2 GPUs left of its quota; in use by big-1/t-group"
    ]
    world.finish("big-1")
    assert world.cycle() == ["admit w"]


def test_a_gang_that_can_shrink_lacks_nodes_even_for_its_minimum_size() -> None:
    """A1, T1."""
    world = World({"a": 9}, {"n0": 1, "n1": 4})
    world.submit("big", "a", LOW, 4)
    world.cycle()
    world.submit("w", "a", LOW, spec=workflow("w", task("t", 1, count=8, minimum=2)))
    world.cycle()
    assert said(world, "w") == ["not enough free nodes: 1 of its minimum of 2 pods fits"]


def test_a_cycle_of_cohorts_is_named() -> None:
    """Q5."""
    world = World({"a": Pool("a", gpu_quota(2), cohort="x")}, {"n0": 4})
    world.do(PutCohort(Cohort("x", "y")), PutCohort(Cohort("y", "x")))
    world.submit("w", "a", NORMAL)
    world.cycle()
    assert [(each.code, each.law) for each in reasons(world, "w")] == [(Code.COHORT_CYCLE, "Q5")]
    assert said(world, "w")[0].startswith("the cohorts above pool a form a cycle")


def test_if_only_nodes_are_missing_the_pods_that_fit_are_counted() -> None:
    """T1."""
    world = World({"a": 8}, {"n0": 4, "n1": 4})
    world.submit("n1", "a", NORMAL, spec=workflow("n1", task("t", 3, count=2)))
    world.cycle()
    world.submit("w", "a", NORMAL, 2)
    world.cycle()
    assert reasons(world, "w") == (Reason(Code.NO_ROOM_ON_NODES, "T1", resource="default", have=0, need=1),)


def test_a_search_that_reached_its_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """T1."""
    world = World({"a": 8}, {"n0": Node("n0", {GPU: 4, CPU: 2}), "n1": Node("n1", {GPU: 3, CPU: 4})})
    two_shapes = replace(
        workflow("w", task("x")),
        groups=(
            replace(
                workflow("w", task("x")).groups[0],
                tasks=(
                    task("x", requests=requests_of({GPU: 2, CPU: 1}), count=2),
                    task("y", requests=requests_of({GPU: 3, CPU: 1}), lead=False),
                ),
            ),
        ),
    )
    monkeypatch.setattr(best_fit, "PACKING_STEPS", 0)
    monkeypatch.setattr(exact_search, "BUDGET", 1)
    world.submit("w", "a", NORMAL, spec=two_shapes)
    assert world.cycle() == []
    assert reasons(world, "w") == (Reason(Code.PLACEMENT_NOT_PROVEN, "T1", resource="default", need=3),)


def test_behind_the_head_of_a_strict_pool_the_head_is_named() -> None:
    """P4."""
    world = World({"a": Pool("a", gpu_quota(2), queueing=STRICT)}, {"n0": 2})
    world.submit("runs", "a", NORMAL, 1)
    world.cycle()
    world.submit("head", "a", NORMAL, 2)
    world.submit("w", "a", NORMAL, 1)
    world.cycle()
    assert [each.code for each in reasons(world, "head")] == [Code.QUOTA_FULL]
    assert said(world, "w") == ["behind head-1/t-group, the head of a STRICT_FIFO queue"]


def test_a_nominated_workflow_names_its_targets() -> None:
    """R4."""
    world = World({"a": 2, "b": 0}, {"n0": 2})
    world.submit("low", "b", LOW, 2)
    world.cycle()
    world.submit("w", "a", NORMAL)
    world.cycle()
    waits = Reason(Code.WAITS_FOR_TARGETS, "R4", holders=("low-1/t-group",))
    blocks = (Blocker(Tier.WAITING_FOR, (), waits),)
    low = ("low-1/t-group",)
    found = GroupWhy(
        "t-group", Status.SCHEDULING, 0, 0, Verdict.WAITS, reasons=(waits,), blockers=blocks, waits_for=low
    )
    assert why(world.state, "w-1") == (found,)
    assert why(world.state, "low-1")[0].preempted_by == "w-1/t-group"


def test_low_work_names_the_target_whose_remaining_gpus_it_waits_for() -> None:
    """R4: the stopping gang still uses its GPUs."""
    world = World({"a": 2, "b": 0}, {"n0": 4})
    world.submit("wide", "b", LOW, 4)
    world.cycle()
    world.submit("in", "a", NORMAL, 1)
    world.submit("w", "a", LOW, 1)
    assert world.cycle() == ["nominate in", "preempt wide for in (RECLAIM)"]
    assert said(world, "w") == ["wide-1/t-group must stop first"]


def test_a_group_names_the_unfinished_groups_before_it() -> None:
    """W1."""
    world = World({"a": 4}, {"n0": 4})
    spec = workflow("w", task("x"), task("y"), task("z"), upstream={"z": ("x", "y")})
    world.submit("w", "a", NORMAL, spec=spec)
    world.cycle()
    assert [str(each) for each in why(world.state, "w-1")[2].reasons] == [
        "groups x-group and y-group must complete first"
    ]


def verdict(world: World, name: str) -> Verdict | None:
    return why(world.state, f"{name}-1")[0].verdict


def test_before_its_first_cycle_the_first_of_the_queue_is_shown_as_starting() -> None:
    world = World({"a": 4}, {"n0": 4})
    world.submit("w", "a", NORMAL)
    assert (verdict(world, "w"), said(world, "w")) == (Verdict.STARTS, [])
    assert world.cycle() == ["admit w"]
    assert why(world.state, "w-1") == (GroupWhy("t-group", Status.INITIALIZING),)


def test_behind_a_gang_that_starts_it_has_not_been_evaluated() -> None:
    """P5: the next cycle determines what is left for it."""
    world = World({"a": 4}, {"n0": 4})
    world.submit("first", "a", NORMAL, 4)
    world.submit("w", "a", NORMAL)
    assert (verdict(world, "w"), said(world, "w")) == (None, ["queued; not evaluated yet"])


def test_a_gang_that_reclaims_quota_in_the_next_cycle_is_not_shown_as_waiting() -> None:
    """R2: LOW fills the cluster, then a NORMAL gang arrives."""
    world = World({"a": 2, "b": 2}, {"n0": 4})
    world.submit("low", "b", LOW, 4)
    world.cycle()
    world.submit("w", "a", NORMAL, 2)
    (group,) = why(world.state, "w-1")
    assert (group.verdict, group.reasons, group.stops) == (Verdict.STARTS_AFTER_STOPS, (), ("low-1/t-group",))
    assert world.cycle() == ["nominate w", "preempt low for w (RECLAIM)"]
    assert verdict(world, "w") is Verdict.WAITS
    world.cycle()


def test_each_flavor_has_its_own_reason() -> None:
    flavors = (Flavor("h100", {"gpu": "h100"}), Flavor("b200", {"gpu": "b200"}))
    quota = {FlavorResource("h100", GPU): Quota(1), FlavorResource("b200", GPU): Quota(2)}
    nodes = {name: Node(name, {GPU: 2}, name, {"gpu": name}) for name in ("h100", "b200")}
    world = World({"a": Pool("a", quota)}, nodes, flavors=flavors)
    for name in ("n1", "n2"):
        world.submit(name, "a", NORMAL, 1)
    world.cycle()
    world.do(PutNode(Node("b200", {GPU: 2}, "b200", {"gpu": "b200"}, ready=False)))
    world.submit("w", "a", NORMAL, 1)
    world.cycle()
    assert [(each.code, each.resource) for each in reasons(world, "w")] == [
        (Code.QUOTA_FULL, "h100/gpu"),
        (Code.NO_ROOM_ON_NODES, "b200"),
    ]


def test_queue_positions_count_the_own_pool_from_one_and_all_pools_from_zero() -> None:
    """P4."""
    world = World({"a": 1, "b": 1}, {"n0": 2})
    for name, pool, priority in (("x", "a", NORMAL), ("y", "b", NORMAL)):
        world.submit(name, pool, priority)
    world.cycle()
    for name, pool, priority in (("a1", "a", LOW), ("b1", "b", NORMAL), ("a2", "a", NORMAL), ("a3", "a", HIGH)):
        world.submit(name, pool, priority)
    world.cycle()
    places = {name: why(world.state, f"{name}-1")[0] for name in ("a1", "b1", "a2", "a3")}
    assert {name: (each.position, each.ahead) for name, each in places.items()} == {
        "a3": (1, 0),
        "b1": (1, 1),
        "a2": (2, 2),
        "a1": (3, 3),
    }


def test_why_changes_nothing() -> None:
    world = World({"a": 2, "b": 2}, {"n0": 4})
    world.submit("low", "b", LOW, 4)
    world.cycle()
    world.submit("in", "a", NORMAL, 1)
    world.submit("w", "a", LOW, 3)
    world.cycle()
    world.state.take_changes()
    before = world.state.rows()
    for name in ("low", "in", "w"):
        why(world.state, f"{name}-1")
    assert world.state.rows() == before
    assert world.state.take_changes() == ()


# ---------------------------------------------------------------- all blockers


def test_for_low_each_limit_up_to_the_root_and_the_nodes_are_shown() -> None:
    """Q3, T1: the limits of the pool, the cohort and the cluster, and no node."""
    cohort = Cohort("k", None, gpu_quota(0, borrowing=2))
    world = World(
        {"a": Pool("a", gpu_quota(1, borrowing=2), cohort="k"), "b": Pool("b", gpu_quota(6, lending=2))},
        {"n0": 3, "n1": 3},
        (cohort,),
    )
    world.submit("l1", "a", LOW, 1)
    world.submit("n1", "b", NORMAL, 3)
    world.cycle()
    world.submit("w", "a", LOW, 3)
    world.cycle()
    assert blocked(world, "w") == [
        ("quota", "BorrowingLimit", "pool a", 2, 3),
        ("quota", "BorrowingLimit", "cohort k", 2, 3),
        ("quota", "NoIdleToBorrow", "the cluster", 2, 3),
        ("shape", "NoRoomOnNodes", "", 0, 1),
    ]
    assert concerned(world, "w")[2] == [("holds", "b", 3), ("holds", "a", 1), ("keeps", "b", 1)]


def test_within_its_guarantee_it_shows_which_low_work_is_safe() -> None:
    """R2: b is within its quota, so the work that it runs is safe."""
    world = World({"a": 4, "b": 4}, {"n0": 4, "n1": 4})
    for name in ("l1", "l2"):
        world.submit(name, "b", LOW, 2)
    world.submit("n1", "a", NORMAL, 1)
    world.cycle()
    world.do(PutNode(Node("n1", {GPU: 4}, ready=False)))
    world.submit("w", "a", NORMAL, 3)
    world.cycle()
    assert blocked(world, "w") == [("shape", "NoRoomOnNodes", "", 0, 1), ("preemption", "NoTargets", "pool a", 0, 3)]
    assert concerned(world, "w")[1] == [("safe", "b", 4)]


def test_beyond_its_guarantee_preemption_is_not_mentioned() -> None:
    """P2: only quota and nodes."""
    world = World({"a": 2}, {"n0": 2})
    world.submit("n1", "a", NORMAL, 1)
    world.cycle()
    world.submit("w", "a", NORMAL, 2)
    world.cycle()
    assert [each[:2] for each in blocked(world, "w")] == [
        ("quota", "QuotaFull"),
        ("quota", "NoIdleToBorrow"),
        ("shape", "NoRoomOnNodes"),
    ]


def test_behind_a_head_other_blockers_are_shown_too() -> None:
    """P4."""
    world = World({"a": Pool("a", gpu_quota(2), queueing=STRICT)}, {"n0": 2})
    world.submit("runs", "a", NORMAL, 1)
    world.cycle()
    world.submit("head", "a", NORMAL, 2)
    world.submit("w", "a", NORMAL, 2)
    world.cycle()
    assert [each[:2] for each in blocked(world, "w")][:2] == [("order", "BehindHeadOfQueue"), ("quota", "QuotaFull")]


def test_the_three_flavors_with_the_fewest_blockers_are_shown() -> None:
    kinds = ("k0", "k1", "k2", "k3")
    flavors = tuple(Flavor(kind, {"gpu": kind}, position=at) for at, kind in enumerate(kinds))
    quota = {FlavorResource(kind, GPU): Quota(2) for kind in kinds}
    nodes = {kind: Node(kind, {GPU: 2}, kind, {"gpu": kind}) for kind in kinds}
    world = World({"a": Pool("a", quota)}, nodes, flavors=flavors)
    for at in range(4):
        world.submit(f"n{at}", "a", NORMAL, 2)
    world.cycle()
    world.do(PutNode(Node("more", {GPU: 2}, "k3", {"gpu": "k3"})))
    world.submit("w", "a", NORMAL, 2)
    world.cycle()
    found = why(world.state, "w-1")[0].blockers
    assert list(dict.fromkeys(each.flavors for each in found)) == [("k0",), ("k1",), ("k3",)]
    assert [each.reason.code for each in found if each.flavors == ("k3",)] == [Code.QUOTA_FULL]


def test_nodes_that_can_never_hold_it_are_reported_as_such() -> None:
    """P3: a node was removed after the gate had accepted it."""
    world = World({"a": 8}, {"n0": 4, "n1": 8})
    world.submit("w", "a", NORMAL, 6)
    world.do(PutNode(Node("n1", {GPU: 2})))
    world.cycle()
    assert [each[:2] for each in blocked(world, "w")] == [
        ("shape", "NoRoomOnNodes"),
        ("shape", "NoEmptyNodes"),
        ("preemption", "NoTargets"),
    ]


def test_for_a_gang_that_can_shrink_the_needs_of_all_its_pods_are_shown_too() -> None:
    """A1."""
    world = World({"a": 5}, {"n0": 5})
    world.submit("big", "a", NORMAL, 3)
    world.cycle()
    world.submit("w", "a", NORMAL, spec=workflow("w", task("t", 1, count=5, minimum=3)))
    world.submit("rigid", "a", NORMAL, 3)
    world.cycle()
    (found,) = why(world.state, "w-1")
    (rigid,) = why(world.state, "rigid-1")
    told = [(each.tier, each.reason.code, each.reason.have, each.reason.need) for each in found.in_full]
    assert told == [
        (Tier.QUOTA, Code.QUOTA_FULL, 2, 5),
        (Tier.QUOTA, Code.NO_IDLE_TO_BORROW, 2, 5),
        (Tier.SHAPE, Code.NO_ROOM_ON_NODES, 2, 5),
    ]
    assert not any(each.reason.at_least for each in found.in_full)
    assert rigid.in_full == ()


def test_if_quota_is_no_blocker_the_remaining_quotas_are_shown() -> None:
    """P2, Q3: the pool's own guarantee, and the least amount left above it; LOW has no guarantee."""
    world = World(
        {"a": Pool("a", gpu_quota(6), cohort="c"), "b": Pool("b", gpu_quota(2), cohort="c")},
        {"n0": 2} | {f"n{at}": 1 for at in range(1, 7)},
    )
    world.do(PutCohort(Cohort("c")))
    world.submit("one", "a", NORMAL, 2)
    world.cycle()
    world.submit("wide", "a", NORMAL, 2)
    world.submit("low", "a", LOW, 2)
    world.cycle()
    left = [why(world.state, f"{name}-1")[0].left for name in ("wide", "low")]
    cluster = QuotaLeft("the cluster", "default/gpu", 6)
    assert left == [(QuotaLeft("pool a", "default/gpu", 4, 6), cluster), (cluster,)]


@pytest.mark.parametrize("label", ["rack", HOSTNAME])
def test_reserved_room_is_shown_with_what_could_be_preempted(label: str) -> None:
    """R4, T1: a nominated gang has the closest rack; its targets count as stopped. A node needs no label with its own name."""
    racks = [TopologyKey("rack", label)]
    nodes = {"n0": 4, "n1": 2}
    world = World({"a": Pool("a", gpu_quota(6), topology_keys=tuple(racks))}, {})
    world.do(*(PutNode(Node(name, {GPU: gpus}, labels={"rack": name})) for name, gpus in nodes.items()))
    world.submit("low", "a", LOW, 4)
    world.cycle()
    world.submit("first", "a", NORMAL, 3)
    world.cycle()
    near = (Requirement("rack"),)
    world.submit("w", "a", NORMAL, spec=workflow("w", task("t", 1, count=3, topology=near)))
    (found,) = why(world.state, "w-1")
    (shape,) = [each.reason for each in found.blockers if each.reason.code is Code.NO_DOMAIN_FITS]
    assert {room.domain: (room.have, room.missing, room.spoken) for room in shape.domains} == {
        ("n1",): (2, Amounts({GPU: 1}), Amounts()),
        ("n0",): (1, Amounts({GPU: 2}), Amounts({GPU: 3})),
    }
