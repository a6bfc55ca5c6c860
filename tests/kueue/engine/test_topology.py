"""Nodes in addition to quota: placements are reserved, later workloads see them, and ending workloads free them (rules
T1, T5).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.kueue import Settings
from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME, Quota
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.quota_node import CHARGED
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import (
    ClusterQueue,
    Policies,
    Policy,
    ResourceFlavor,
    ResourceGroup,
    Slices,
    System,
    Topology,
    TopologyMode,
    TopologyRequest,
    Workload,
    WorkloadPodSet,
)
from runrig.kueue.engine.node_tree import NO_WORK
from runrig.kueue.engine.simulator import Simulator

RACKS = Topology("racks", ("rack", HOSTNAME))


def node(name: str, rack: str, gpus: int, kind: str = "a") -> Node:
    labels = {"rack": rack, HOSTNAME: name, "kind": kind}
    return Node(name, {"gpu": gpus, "pods": 99}, labels=labels)


def flavor(name: str = "a", kind: str = "a") -> ResourceFlavor:
    return ResourceFlavor(name, {"kind": kind}, topology="racks")


NOBODY = Policies()
DEFAULT = Settings()


def queue(
    name: str = "q", flavors: Sequence[str] = ("a",), quota: int = 99, policies: Policies = NOBODY
) -> ClusterQueue:
    quotas = {FlavorResource(each, "gpu"): Quota(quota) for each in flavors}
    return ClusterQueue(name, (ResourceGroup(("gpu",), tuple(flavors)),), quotas, policies=policies, weight=Fraction(1))


def work(
    name: str,
    count: int,
    gpus: int,
    near: TopologyRequest | None = None,
    *,
    least: int | None = None,
    priority: int = 0,
    at: float = 0.0,
    queue: str = "q",
) -> Workload:
    pod_set = WorkloadPodSet("main", count, least, (("gpu", gpus),), topology=near)
    return Workload(name, queue, (pod_set,), priority=priority, created_at=at, queued_at=at)


def near(how: TopologyMode, level: str, *slices: Slices) -> TopologyRequest:
    return TopologyRequest(how, level, slices)


RACK = near(TopologyMode.REQUIRED, "rack")


def world(
    nodes: Sequence[Node],
    *workloads: Workload,
    queues: Sequence[ClusterQueue] = (queue(),),
    flavors: Sequence[ResourceFlavor] = (flavor(),),
    settings: Settings = DEFAULT,
) -> Simulator:
    return Simulator(
        System(
            queues=tuple(queues),
            flavors=tuple(flavors),
            workloads=workloads,
            namespaces={"default": {}},
            nodes=tuple(nodes),
            topologies=(RACKS,),
        ),
        settings,
    )


def started(made: Simulator, cycle: int = 1) -> dict[str, dict[str, int]]:
    """Pods by node, of the workloads that a cycle admits."""
    return {
        each.workload: {placed.domain[-1]: placed.count for pods in each.granted for placed in pods.placement}
        for each in made.cycle(float(cycle)).admitted
    }


def held(made: Simulator) -> dict[str, int]:
    """GPUs in use by node, each node once; checks that no temporary placement is left."""
    leaves = {leaf for tree in made._context.nodes.trees.values() for leaf in tree.topology.nodes}
    assert all(leaf.free[NO_WORK] == leaf.node.resources for leaf in leaves)
    taken = {leaf.node.labels[HOSTNAME]: leaf.node.resources["gpu"] - leaf.free[CHARGED]["gpu"] for leaf in leaves}
    return {name: amount for name, amount in taken.items() if amount}


TWO = (node("n1", "r1", 4), node("n2", "r1", 4), node("n3", "r2", 4), node("n4", "r2", 4))


def test_nodes_of_a_rack_that_is_a_leaf_count_as_one_even_beyond_64_bits() -> None:
    """T5: one pod fits on each of the nodes, and three into the rack."""
    nodes = [Node(name, {"memory": 9 * 2**59, "pods": 9}, labels={"rack": "r1", "kind": "a"}) for name in ("n1", "n2")]
    pod_set = WorkloadPodSet("main", 3, None, (("memory", 5 * 2**59),), topology=RACK)
    quotas = {FlavorResource("a", "memory"): Quota(2**63 - 1)}
    system = System(
        queues=(ClusterQueue("q", (ResourceGroup(("memory",), ("a",)),), quotas, weight=Fraction(1)),),
        flavors=(flavor(),),
        workloads=tuple(Workload(name, "q", (pod_set,), created_at=0, queued_at=0) for name in ("one", "two")),
        namespaces={"default": {}},
        nodes=tuple(nodes),
        topologies=(Topology("racks", ("rack",)),),
    )
    made = Simulator(system, DEFAULT)
    assert started(made) == {"one": {"r1": 3}}
    assert started(made, 2) == {}


def test_without_the_gate_a_head_whose_nodes_are_taken_returns_to_the_line() -> None:
    queues = [queue("q"), queue("p")]
    gates = Settings(gates={"TASRecomputeAssignmentWithinSchedulingCycle": False})
    jobs = work("one", 2, 4, RACK), work("two", 2, 4, RACK, queue="p", at=1)
    made = world(TWO, *jobs, queues=queues, settings=gates)
    assert started(made) == {"one": {"n1": 1, "n2": 1}}
    assert started(made, 2) == {"two": {"n3": 1, "n4": 1}}


def test_freed_nodes_wake_workloads_in_other_trees() -> None:
    queues = [queue("q"), queue("p")]
    made = world(TWO[:2], work("one", 2, 4, RACK), work("two", 2, 4, RACK, queue="p", at=1), queues=queues)
    assert started(made) == {"one": {"n1": 1, "n2": 1}}
    (waits,) = made.cycle(2.0).pending
    assert (waits.reason, waits.parked) == (PendingReason.TOPOLOGY, True)
    made.finish("one")
    assert held(made) == {}
    assert started(made, 3) == {"two": {"n1": 1, "n2": 1}}


def test_flavors_with_the_same_nodes_see_each_others_usage() -> None:
    queues = [queue("q", ("a",)), queue("p", ("b",))]
    jobs = work("one", 1, 3, RACK), work("two", 1, 3, RACK, queue="p", at=1)
    for overlapping, expected in ((True, {"one": {"n1": 1}}), (False, {"one": {"n1": 1}, "two": {"n1": 1}})):
        settings = Settings(gates={"TASHandleOverlappingFlavors": overlapping})
        made = world(TWO[:1], *jobs, queues=queues, flavors=[flavor("a"), flavor("b")], settings=settings)
        assert started(made) == expected


def test_a_flavor_accepts_only_workloads_whose_levels_it_has() -> None:
    made = world(TWO, work("one", 1, 1, near(TopologyMode.REQUIRED, "zone")))
    assert [each.reason for each in made.cycle(1.0).pending] == [PendingReason.NO_MATCHING_FLAVOR]


# ---------------------------------------------------------------- any nodes

SIZES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=4)
GATES = st.sampled_from([{}, {"TASBalancedPlacement": True}, {"TASProfileMixed": False}])


def nodes_of(sizes: Sequence[Sequence[int]]) -> list[Node]:
    return [node(f"n{r}{n}", f"r{r}", gpus) for r, rack in enumerate(sizes) for n, gpus in enumerate(rack)]


@given(
    sizes=SIZES,
    count=st.integers(1, 12),
    gpus=st.integers(1, 3),
    how=st.sampled_from(list(TopologyMode)[:3]),
    size=st.sampled_from([1, 2, 3]),
    level=st.sampled_from(["rack", HOSTNAME]),
    gates=GATES,
)
def test_pods_start_exactly_if_a_placement_exists(
    sizes: list[list[int]], count: int, gpus: int, how: TopologyMode, size: int, level: str, gates: Mapping[str, bool]
) -> None:
    """Nothing else runs. Slices of *size* are placed in one domain of *level*."""
    count *= size
    ask = near(how, "" if how is TopologyMode.UNCONSTRAINED else "rack", Slices(level, size))
    made = world(nodes_of(sizes), work("one", count, gpus, ask), settings=Settings(gates=gates))
    by_rack = [[gpu // gpus for gpu in rack] for rack in sizes]
    slices = [sum(fit // size for fit in rack) if level == HOSTNAME else sum(rack) // size for rack in by_rack]
    room = max(slices) if how is TopologyMode.REQUIRED else sum(slices)
    found = started(made)
    assert bool(found) is (room >= count // size)
    if found:
        pods = found["one"]
        assert sum(pods.values()) == count
        assert all(pods[name] * gpus <= sizes[int(name[1])][int(name[2])] for name in pods)
        assert held(made) == {name: number * gpus for name, number in pods.items()}
        domains = Counter[str]()
        for name, number in pods.items():
            domains[name if level == HOSTNAME else name[:2]] += number
        assert all(not number % size for number in domains.values())
        assert how is not TopologyMode.REQUIRED or len({name[:2] for name in pods}) == 1


@given(sizes=SIZES, jobs=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2)), max_size=8))
def test_no_sequence_of_events_overbooks_or_loses_a_node(
    sizes: list[list[int]], jobs: list[tuple[int, int, int]]
) -> None:
    lower = queue(quota=20, policies=Policies(within_queue=Policy.LOWER))
    made = world(nodes_of(sizes), queues=[lower])
    room = {f"n{r}{n}": gpus for r, rack in enumerate(sizes) for n, gpus in enumerate(rack)}
    for at, (count, gpus, priority) in enumerate(jobs):
        made.submit(work(f"j{at}", count, gpus, RACK, least=1, priority=priority, at=at))
        for _ in range(3):
            made.cycle(float(at))
            assert all(amount <= room[name] for name, amount in held(made).items())
            assert held(made) == _held_by_items(made)
            made.carry_out()
    for item in [each for each in made._workloads.values() if each.granted]:
        made.finish(item.spec.name)
    assert held(made) == {}


def _held_by_items(made: Simulator) -> dict[str, int]:
    found = Counter[str]()
    for item in made._workloads.values():
        for granted in item.granted:
            for placed in granted.placement:
                found[placed.domain[-1]] += placed.count * dict(item.spec.pod_sets[0].requests)["gpu"]
    return dict(found)
