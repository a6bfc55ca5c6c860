"""Nodes in addition to quota: placements are reserved, later workloads see them, and ending workloads free them (rules
T1, T5).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.kueue import Settings
from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.engine.quota.quota_node import CHARGED
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import Slices, Topology, TopologyMode, TopologyRequest
from runrig.kueue.engine.node_tree import NO_WORK
from runrig.kueue.engine.simulator import Simulator
from tests.kueue.engine.clusters import ONE_RACK, cluster, flavor, machine, pods, queue, waits


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


TWO = (machine("n1", gpu=4), machine("n2", gpu=4), machine("n3", "r2", gpu=4), machine("n4", "r2", gpu=4))
QUEUES = (queue("q", gpu=99), queue("p", gpu=99))
FULL = pods(2, ONE_RACK, gpu=4)
BOTH = (waits("one", "q", FULL), waits("two", "p", FULL, at=11))


def test_nodes_of_a_rack_that_is_a_leaf_count_as_one_even_beyond_64_bits() -> None:
    """T5: one pod fits on each of the nodes, and three into the rack."""
    jobs = [waits(name, "q", pods(3, ONE_RACK, memory=5 * 2**59)) for name in ("one", "two")]
    nodes = [machine(name, memory=9 * 2**59) for name in ("n1", "n2")]
    made = cluster(nodes, [queue("q", memory=2**63 - 1)], *jobs, topology=Topology("racks", ("rack",)))
    assert started(made) == {"one": {"r1": 3}}
    assert started(made, 2) == {}


def test_without_the_gate_a_head_whose_nodes_are_taken_returns_to_the_line() -> None:
    gates = Settings(gates={"TASRecomputeAssignmentWithinSchedulingCycle": False})
    made = cluster(TWO, QUEUES, *BOTH, settings=gates)
    assert started(made) == {"one": {"n1": 1, "n2": 1}}
    assert started(made, 2) == {"two": {"n3": 1, "n4": 1}}


def test_freed_nodes_wake_workloads_in_other_trees() -> None:
    made = cluster(TWO[:2], QUEUES, *BOTH)
    assert started(made) == {"one": {"n1": 1, "n2": 1}}
    (waiting,) = made.cycle(2.0).pending
    assert (waiting.reason, waiting.parked) == (PendingReason.TOPOLOGY, True)
    made.finish("one")
    assert held(made) == {}
    assert started(made, 3) == {"two": {"n1": 1, "n2": 1}}


def test_flavors_with_the_same_nodes_see_each_others_usage() -> None:
    queues = [queue("q", gpu=99), queue("p", flavors=["g"], gpu=99)]
    flavors = [flavor(), replace(flavor(), name="g")]
    jobs = [waits("one", "q", pods(1, ONE_RACK, gpu=3)), waits("two", "p", pods(1, ONE_RACK, gpu=3), at=11)]
    for overlapping, expected in ((True, {"one": {"n1": 1}}), (False, {"one": {"n1": 1}, "two": {"n1": 1}})):
        settings = Settings(gates={"TASHandleOverlappingFlavors": overlapping})
        made = cluster(TWO[:1], queues, *jobs, flavors=flavors, settings=settings)
        assert started(made) == expected


def test_a_flavor_accepts_only_workloads_whose_levels_it_has() -> None:
    made = cluster(TWO, QUEUES, waits("one", "q", pods(1, TopologyRequest(TopologyMode.REQUIRED, "zone"), gpu=1)))
    assert [each.reason for each in made.cycle(1.0).pending] == [PendingReason.NO_MATCHING_FLAVOR]


# ---------------------------------------------------------------- any nodes

SIZES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=4)
GATES = st.sampled_from([{}, {"TASBalancedPlacement": True}, {"TASProfileMixed": False}])


def nodes_of(sizes: Sequence[Sequence[int]]) -> list[Node]:
    return [machine(f"n{r}{n}", f"r{r}", gpu=gpus) for r, rack in enumerate(sizes) for n, gpus in enumerate(rack)]


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
    ask = TopologyRequest(how, "" if how is TopologyMode.UNCONSTRAINED else "rack", (Slices(level, size),))
    job = waits("one", "q", pods(count, ask, gpu=gpus))
    made = cluster(nodes_of(sizes), QUEUES, job, settings=Settings(gates=gates))
    by_rack = [[gpu // gpus for gpu in rack] for rack in sizes]
    slices = [sum(fit // size for fit in rack) if level == HOSTNAME else sum(rack) // size for rack in by_rack]
    room = max(slices) if how is TopologyMode.REQUIRED else sum(slices)
    found = started(made)
    assert bool(found) is (room >= count // size)
    if found:
        on = found["one"]
        assert sum(on.values()) == count
        assert all(on[name] * gpus <= sizes[int(name[1])][int(name[2])] for name in on)
        assert held(made) == {name: number * gpus for name, number in on.items()}
        domains = Counter[str]()
        for name, number in on.items():
            domains[name if level == HOSTNAME else name[:2]] += number
        assert all(not number % size for number in domains.values())
        assert how is not TopologyMode.REQUIRED or len({name[:2] for name in on}) == 1


@given(sizes=SIZES, jobs=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2)), max_size=8))
def test_no_sequence_of_events_overbooks_or_loses_a_node(
    sizes: list[list[int]], jobs: list[tuple[int, int, int]]
) -> None:
    made = cluster(nodes_of(sizes), [queue("q", gpu=20)])
    room = {f"n{r}{n}": gpus for r, rack in enumerate(sizes) for n, gpus in enumerate(rack)}
    for at, (count, gpus, priority) in enumerate(jobs):
        made.submit(waits(f"j{at}", "q", pods(count, ONE_RACK, least=1, gpu=gpus), priority=priority, at=at))
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
