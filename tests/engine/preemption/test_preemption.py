"""Which gangs stop so that another can start, and which never do (rules R1-R6)."""

from dataclasses import replace

from runrig.domain.gangs import GangState, Law, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.older_gangs import Older, Share
from runrig.domain.plan import DropNode, Nominate, Preempt, PutNode, PutPool, Withdraw
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import CPU, GPU, PODS, FlavorResource
from runrig.domain.reasons import Code, Concerned, Part, Reason
from runrig.domain.workflows import Status
from runrig.engine import cycle
from runrig.engine.explain.why import why
from runrig.engine.state.state import State
from tests.worlds.engine import GPUS, HIGH, LOW, NORMAL, STRICT, World, gpu_quota, subpool, task, workflow

TWO_POOLS = {"a": 2, "b": 2}


def started(world: World, *work: tuple[str, str, Priority, int]) -> World:
    """Each (name, pool, priority, GPUs) is submitted and running before the next."""
    for name, pool, priority, gpus in work:
        world.submit(name, pool, priority, gpus)
        assert world.cycle() == [f"admit {name}"]
    return world


# ---------------------------------------------------------------- two pools on four GPUs


def test_the_latest_borrower_is_reclaimed_and_low_within_the_quota_stays() -> None:
    """R2."""
    world = started(
        World(TWO_POOLS, {"n0": 4}),
        ("firm", "a", NORMAL, 1),
        ("early", "a", LOW, 1),
        ("other", "b", NORMAL, 1),
        ("late", "a", LOW, 1),
    )
    world.submit("in", "b", NORMAL)
    assert world.cycle() == ["nominate in", "preempt late for in (RECLAIM)"]


def test_low_work_of_the_same_pool_is_preempted_if_no_pool_borrows() -> None:
    """R1."""
    world = started(World(TWO_POOLS, {"n0": 4}), ("low", "a", LOW, 2), ("other", "b", LOW, 2))
    world.submit("in", "a", NORMAL)
    assert world.cycle() == ["nominate in", "preempt low for in (PRIORITY)"]


def test_high_does_not_preempt_normal() -> None:
    """R3: only preemptible gangs are targets."""
    world = started(World(TWO_POOLS, {"n0": 4}), ("n1", "a", NORMAL, 2), ("n2", "b", NORMAL, 2))
    world.submit("in", "a", HIGH)
    assert world.cycle() == []


def test_low_work_preempts_nothing_not_even_a_borrower() -> None:
    world = started(World(TWO_POOLS, {"n0": 4}), ("wide", "a", LOW, 4))
    world.submit("in", "b", LOW)
    assert world.cycle() == []


def test_a_wide_borrower_stops_as_a_whole_and_the_rest_is_used() -> None:
    """R3, R4: others get the rest of what it frees, in the cycle in which it becomes free."""
    world = started(World(TWO_POOLS, {"n0": 4}), ("wide", "a", LOW, 4))
    world.submit("in", "b", NORMAL, 1)
    world.submit("small", "a", LOW, 2)
    assert world.cycle() == ["nominate in", "preempt wide for in (RECLAIM)"]
    assert world.cycle() == ["admit in", "admit small"]


# ---------------------------------------------------------------- the order of candidates


def test_a_stopping_gang_is_waited_for_and_nothing_else_stops() -> None:
    """R3, R4."""
    world = started(
        World({"a": 2, "b": 2}, {"n0": 4}), ("keep", "b", NORMAL, 2), ("l1", "a", LOW, 1), ("l2", "a", LOW, 1)
    )
    world.cancel("l1-1")
    world.submit("in", "a", NORMAL, 1)
    plan = cycle.run(world.state, linger(world), world.now)
    assert next(each for each in plan.actions if isinstance(each, Nominate)).targets == ("l1-1/t-group",)
    assert world.state.ledger.entries["l2-1/t-group"].state is GangState.ADMITTED
    assert why(world.state, "in-1")[0].reasons == (Reason(Code.WAITS_FOR_TARGETS, "R4", holders=("l1-1/t-group",)),)
    assert world.cycle() == ["admit in"]


def linger(world: World) -> Observation:
    """Everything is unchanged: gangs that must stop have not ended yet."""
    return Observation({key: TaskFact(Phase.RUNNING) for key in world.state.active})


def test_the_rest_of_a_wide_target_is_reserved_only_once() -> None:
    """R4: two preemptors share one target, a third waits for its own."""
    world = started(World({"a": 4, "b": 0}, {"n0": 4}), ("l1", "b", LOW, 1), ("wide", "b", LOW, 3))
    for name, gpus in (("x", 1), ("y", 2), ("z", 1)):
        world.submit(name, "a", NORMAL, gpus)
    assert world.cycle() == [
        "nominate x",
        "preempt wide for x (RECLAIM)",
        "nominate y",
        "nominate z",
        "preempt l1 for z (RECLAIM)",
    ]
    assert world.cycle() == ["admit x", "admit y", "admit z"]


def test_a_preemptor_that_needs_the_rest_of_anothers_target_waits_for_it_too() -> None:
    """R4: it keeps its reservation, whichever of them ends first."""
    world = started(World({"a": 4, "b": 0}, {"n0": 4}), ("l1", "b", LOW, 1), ("wide", "b", LOW, 3))
    world.submit("x", "a", NORMAL, 2)
    world.submit("y", "a", NORMAL, 2)
    assert world.cycle() == ["nominate x", "preempt wide for x (RECLAIM)", "nominate y", "preempt l1 for y (RECLAIM)"]
    assert sorted(world.state.ledger.nominated["y-1/t-group"].waits_for) == ["l1-1/t-group", "wide-1/t-group"]
    world.now += 1
    facts = {key: TaskFact(Phase.RUNNING) for key in world.state.active}
    facts |= {key: TaskFact(Phase.ENDED, 143) for key in facts if key.workflow == "l1-1"}
    plan = cycle.run(world.state, Observation(facts), world.now)
    assert not [each for each in plan.actions if isinstance(each, Nominate | Withdraw)]
    assert world.cycle() == ["admit x", "admit y"]


# ---------------------------------------------------------------- subpools


def test_a_parent_is_safe_in_the_resource_that_it_does_not_borrow() -> None:
    """R2, flavor by flavor: mine uses its share of the old nodes and more of the new ones; only the latter are
    reclaimed.
    """
    flavors = (Flavor("new", {"kind": "new"}, position=0), Flavor("old", {"kind": "old"}, position=1))
    new, old = (FlavorResource(each.name, GPU) for each in flavors)
    nodes = {name: Node(name, {GPU: 4}, labels={"kind": name}, flavor=name) for name in ("new", "old")}
    pools: dict[str, int | Pool] = {
        "team": Pool("team", {new: Quota(4), old: Quota(4)}),
        "team--a": Pool("team--a", {new: Quota(2), old: Quota(2)}, parent="team", subpool_name="a"),
    }
    world = World(pools, nodes, flavors=flavors)
    for name, flavor, gpus in (("old1", "old", 2), ("new1", "new", 2), ("new2", "new", 2)):
        world.submit(name, "team", LOW, spec=workflow(name, task("t", gpus, platform=flavor)))
        assert world.cycle() == [f"admit {name}"]
    world.submit("busy", "team--a", NORMAL, spec=workflow("busy", task("t", 2, platform="old")))
    assert world.cycle() == ["admit busy"]
    world.submit("in", "team--a", NORMAL, spec=workflow("in", task("t", 2)))
    assert world.cycle() == ["nominate in", "preempt new2 for in (RECLAIM)"]


def test_if_only_nodes_are_full_a_parent_within_what_is_unallocated_is_named_as_safe() -> None:
    """R2, T1: there is quota, no node has room, and `why` names the gangs that cannot be preempted."""
    pools: dict[str, int | Pool] = {"team": 4, "team--a": subpool("team", "a", 2)}
    world = started(World(pools, {"n0": 2, "n1": 2, "n2": 2}), ("x", "team", LOW, 1))
    world.do(
        PutNode(replace(world.state.nodes["n1"], ready=False)), PutNode(replace(world.state.nodes["n2"], ready=False))
    )
    started(world, ("y", "team", LOW, 1))
    world.submit("in", "team--a", NORMAL, 2)
    assert world.cycle() == []
    blockers = [each.reason for each in why(world.state, "in-1")[0].blockers]
    assert [each for each in blockers if each.code is Code.NO_TARGETS] == [
        Reason(
            Code.NO_TARGETS,
            "R2",
            "pool team--a",
            "default/gpu",
            0,
            2,
            concerned=(Concerned(Part.PROTECTED, "team", 2),),
        )
    ]


def test_excess_of_older_parent_work_is_not_reclaimed_from_other_pools() -> None:
    """P2: guaranteed work of the parent and of its subpools together stays within the parent's quota."""
    world = started(World({"team": 4, "sim": 4}, {"n0": 8}), ("old", "team", NORMAL, 4))
    world.do(PutPool(subpool("team", "a", 4)))
    started(world, ("low", "sim", LOW, 4))
    world.submit("in", "team--a", NORMAL, 1)
    assert world.cycle() == []
    older = (Older("team", ("old-1/t-group",), gave=True),)
    reason = Reason(
        Code.QUOTA_FULL, "P2", "team", "default/gpu", 0, 1, holders=("old-1/t-group",), share=Share.SUBTREE, older=older
    )
    assert why(world.state, "in-1")[0].reasons == (reason,)


# ---------------------------------------------------------------- nodes


def test_with_quota_but_full_nodes_a_borrower_is_preempted() -> None:
    """R1 and R2 also apply if room on nodes is short."""
    world = started(World({"a": 4, "b": 2}, {"n0": 4, "n1": 4}), ("x", "b", LOW, 3), ("y", "b", LOW, 3))
    world.submit("in", "a", NORMAL, 4)
    assert world.cycle() == ["nominate in", "preempt y for in (RECLAIM)"]
    assert world.cycle() == ["admit in"]


def test_protected_low_is_not_preempted_for_its_node() -> None:
    """R2: the gang waits, with rule T1."""
    world = started(World({"a": 4, "b": 2, "c": 2}, {"n0": 4, "n1": 4}), ("x", "b", LOW, 2), ("y", "c", NORMAL, 2))
    assert {world.state.tasks[key].node for key in world.state.active} == {"n0"}
    world.submit("z", "a", LOW, 1)
    world.do(PutNode(Node("n1", {GPU: 4}, ready=False)))
    assert world.cycle() == []
    world.submit("in", "a", NORMAL, 4)
    assert world.cycle() == []
    assert [each.law for each in why(world.state, "in-1")[0].reasons] == ["T1"]


def test_a_nomination_is_withdrawn_when_its_node_is_lost_and_repeated_elsewhere() -> None:
    """R4."""
    world = started(World({"a": 2, "b": 0}, {"n0": 2, "n1": 2}), ("l1", "b", LOW, 2), ("l2", "b", LOW, 2))
    world.submit("in", "a", NORMAL, 2)
    assert world.cycle() == ["nominate in", "preempt l2 for in (RECLAIM)"]
    world.do(DropNode("n1"))
    assert world.cycle() == ["withdraw in", "nominate in", "preempt l1 for in (RECLAIM)"]
    assert world.cycle() == ["admit in"]


def test_a_nomination_is_withdrawn_when_its_node_changes_flavor() -> None:
    """R4: the grant was for one flavor."""
    world = started(World({"a": 2, "b": 0}, {"n0": 2}), ("l1", "b", LOW, 2))
    world.submit("in", "a", NORMAL, 2)
    assert world.cycle() == ["nominate in", "preempt l1 for in (RECLAIM)"]
    world.do(PutNode(Node("n0", {GPU: 2}, flavor="other")))
    assert world.cycle() == ["withdraw in"]


def test_a_nomination_made_impossible_by_an_edit_is_dropped_with_its_reservation() -> None:
    """R4: otherwise the reserved amounts would stay idle."""
    world = started(World({"a": 2, "b": 0}, {"n0": 2}), ("l1", "b", LOW, 2))
    world.submit("in", "a", NORMAL, 2)
    assert world.cycle() == ["nominate in", "preempt l1 for in (RECLAIM)"]
    world.do(PutPool(Pool("a", gpu_quota(1)), world.state.pools["a"]))
    assert world.cycle() == ["withdraw in", "admit l1"]


def test_a_target_that_was_requeued_and_restarted_is_no_longer_a_target() -> None:
    """R4: the id is the same, but the attempt is not; neither a withdrawal nor a restart of the server may treat it as
    stopped.
    """
    world = World({"a": 4, "b": 0}, {"n0": 2, "n1": 2, "n2": 1})
    started(world, ("l1", "b", LOW, 1), ("l2", "b", LOW, 2), ("l3", "b", LOW, 2))
    spec = workflow("in", task("t", 2, count=2))
    world.submit("in", "a", NORMAL, spec=spec)
    assert world.cycle() == ["nominate in", "preempt l3 for in (RECLAIM)", "preempt l2 for in (RECLAIM)"]
    nominated = world.state.ledger.nominated["in-1/t-group"]
    waited_for = nominated.waits_for
    assert waited_for == ("l3-1/t-group", "l2-1/t-group")
    facts = {
        key: TaskFact(Phase.ENDED, 143) if key.workflow == "l3-1" else TaskFact(Phase.RUNNING)
        for key in world.state.active
    }
    world.now += 1
    cycle.run(world.state, Observation(facts), world.now)
    assert nominated.waits_for == ("l2-1/t-group",)
    rows = world.state.rows()
    assert State.load(rows).rows() == rows


# ---------------------------------------------------------------- the preempted gang afterwards


def test_the_record_names_preemptor_and_target_and_the_gang_waits_at_full_size() -> None:
    """R6, A3, P4."""
    world = started(World({"a": 2, "b": 0}, {"n0": 2}), ("low", "b", LOW, 2))
    world.submit("in", "a", NORMAL, 2)
    world.cycle()
    entry = world.state.ledger.entries["low-1/t-group"]
    assert (entry.state, entry.preempted_by, entry.law) == (GangState.STOPPING, "in-1/t-group", Law.RECLAIM)
    assert world.cycle() == ["admit in"]
    group = world.state.groups["low-1", "t-group"]
    assert (group.status, group.attempt, group.preemptions) == (Status.SCHEDULING, 1, 1)
    first, second = world.state.attempts("low-1", "t")
    assert (first.status, first.exit_code, first.failure_message) == (
        Status.FAILED_PREEMPTED,
        3006,
        "preempted by in-1/t-group",
    )
    assert second.status is Status.SCHEDULING
    assert world.state.ledger.entries["low-1/t-group"].order == (0, 1.0, "low-1/t-group")


def test_the_nominated_head_of_a_strict_pool_is_not_passed() -> None:
    """P4."""
    pools: dict[str, int | Pool] = {"a": Pool("a", gpu_quota(3), queueing=STRICT), "b": 0}
    world = started(World(pools, {"n0": 3}), ("low", "b", LOW, 2))
    world.submit("head", "a", NORMAL, 2)
    world.submit("behind", "a", NORMAL, 1)
    assert world.cycle() == ["nominate head", "preempt low for head (RECLAIM)"]
    assert world.cycle() == ["admit head", "admit behind"]


def test_only_users_of_the_short_resource_stop() -> None:
    cpu = FlavorResource("default", CPU)
    both = {GPUS: Quota(2), cpu: Quota(4000)}
    world = World(
        {"a": Pool("a", both), "b": Pool("b", {GPUS: Quota(0), cpu: Quota(0)})}, {"n0": Node("n0", {GPU: 2, CPU: 4000})}
    )
    for name, amounts in (("gpus", {GPU: 1}), ("cores", {CPU: 4000})):
        spec = workflow(name, task("t", requests=tuple(sorted(amounts.items()))))
        world.submit(name, "b", LOW, spec=spec)
    assert world.cycle() == ["admit gpus", "admit cores"]
    world.submit("in", "a", NORMAL, 2)
    assert world.cycle() == ["nominate in", "preempt gpus for in (RECLAIM)"]


def test_a_skipped_gang_is_evaluated_again_when_another_begins_to_stop() -> None:
    """R3: stopping gangs are waited for; a server that has just started decides the same."""
    world = started(World({"a": 2, "b": 2}, {"n0": 2}), ("runs", "a", NORMAL, 2))
    world.submit("in", "b", NORMAL, 2)
    assert world.cycle() == []
    world.cancel("runs-1")
    twin = State.load(world.state.rows())
    world.now += 1
    plan = cycle.run(world.state, linger(world), world.now)
    assert plan == cycle.run(twin, linger(world), world.now)
    assert [each.targets for each in plan.actions if isinstance(each, Nominate)] == [("runs-1/t-group",)]


def preemptions(world: World, *work: tuple[str, str, Priority, int]) -> list[Preempt]:
    """Starts all of *work* (name, pool, priority, GPUs) one after the other; returns the preemptions for the last."""
    for name, pool, priority, gpus in work:
        world.submit(name, pool, priority, gpus)
        plan = cycle.run(world.state, world.observe(), world.now)
    return [action for action in plan.actions if isinstance(action, Preempt)]


def test_a_preemption_names_the_cheaper_candidate_that_would_not_have_helped() -> None:
    """R3, R6: the pod needs two GPUs of one node, and next to the latest LOW gang is work that stays."""
    world = World({"a": 4}, {"n0": 2, "n1": 2})
    work = (("base", "a", NORMAL, 1), ("pair", "a", LOW, 2), ("late", "a", LOW, 1), ("in", "a", NORMAL, 2))
    wanted = Preempt("pair-1/t-group", "in-1/t-group", Law.PRIORITY, (("late-1/t-group", "R3"),))
    assert preemptions(world, *work) == [wanted]


def test_a_preemption_names_the_cheaper_candidate_that_had_become_safe() -> None:
    """R2, R6: without b2, pool b is within its quota. So b1 is skipped and wide stops, which started earlier."""
    world = World({"a": 2, "b": 2, "c": 4}, {"n0": 8})
    low = (("old", "a", LOW, 1), ("wide", "a", LOW, 3), ("b1", "b", LOW, 2), ("b2", "b", LOW, 2))
    assert preemptions(world, *low, ("in", "c", NORMAL, 4)) == [
        Preempt("b2-1/t-group", "in-1/t-group", Law.RECLAIM),
        Preempt("wide-1/t-group", "in-1/t-group", Law.RECLAIM, (("b1-1/t-group", "R2"),)),
    ]


def test_low_work_on_a_node_with_a_new_flavor_is_preempted_by_its_own_pool() -> None:
    """R1 (found by the long state machine): LOW was admitted with flavor b; its node has flavor a now, and a guaranteed
    gang needs it.
    """
    flavors = (Flavor("a", {"kind": "a"}), Flavor("b", {"kind": "b"}, position=1))
    pool = Pool("p", {FlavorResource("a", GPU): Quota(2)})
    world = World({"p": pool}, {"n0": Node("n0", {GPU: 1}, flavor="b", labels={"kind": "b"})}, flavors=flavors)
    world.submit("low", "p", LOW, 1)
    assert world.cycle() == ["admit low"]
    world.do(PutNode(Node("n0", {GPU: 2}, flavor="a", labels={"kind": "a"})))
    world.submit("in", "p", NORMAL, 2)
    assert world.cycle() == ["nominate in", "preempt low for in (PRIORITY)"]


def test_each_pod_uses_a_pod_slot_and_may_need_preemption_for_it() -> None:
    """T1, R1: there are enough GPUs for all of them."""
    world = World({"a": 8}, {"n0": Node("n0", {GPU: 8, PODS: 3})})
    world.submit("pair", "a", spec=workflow("pair", task("t", count=2)))
    world.submit("low", "a", LOW)
    world.submit("late", "a", LOW)
    assert world.cycle() == ["admit pair", "admit low"]
    assert [each.code for each in why(world.state, "late-1")[0].reasons] == [Code.NO_ROOM_ON_NODES]
    world.submit("firm", "a")
    assert world.cycle() == ["nominate firm", "preempt low for firm (PRIORITY)"]
    assert world.cycle() == ["admit firm"]
    world.finish("pair-1")
    assert world.cycle() == ["admit low", "admit late"]
