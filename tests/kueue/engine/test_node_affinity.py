"""Node affinity of pods: required by name and label, and preferred (rule T1)."""

from dataclasses import replace

import pytest

from runrig.domain.kueue import Settings
from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.kueue.declared import NODE_NAME, MatchExpression, NodeChoice, TopologyMode, TopologyRequest
from tests.kueue.engine.clusters import (
    ANYWHERE,
    ONE_HOST,
    ONE_RACK,
    Decided,
    cluster,
    decided,
    machine,
    outcome,
    pods,
    queue,
    runs,
    slices,
    waits,
)

Term = tuple[MatchExpression, ...]
N1 = machine("n1", "r1", cpu=4)
N2 = machine("n2", "r1", cpu=2)
N3 = machine("n3", "r2", cpu=4)
FLEET = (N1, N2, N3)
Q = queue("q", cpu=99, gpu=99)


def named(*names: str) -> Term:
    return (MatchExpression(NODE_NAME, "In", names),)


def not_named(name: str) -> Term:
    return (MatchExpression(NODE_NAME, "NotIn", (name,)),)


def labelled(key: str, value: str) -> Term:
    return (MatchExpression(key, "In", (value,)),)


def needs(*terms: Term) -> NodeChoice:
    return NodeChoice(terms=terms)


# ---------------------------------------------------------------- required node names


@pytest.mark.parametrize(
    ("count", "near", "terms", "stands"),
    [
        (2, ANYWHERE, [named("n2")], {"n2": 2}),
        (3, ANYWHERE, [named("n2")], None),
        (5, ANYWHERE, [named("n2"), named("n3")], {"n2": 2, "n3": 3}),
        (5, ANYWHERE, [not_named("n1")], {"n2": 2, "n3": 3}),
        (7, ANYWHERE, [not_named("n1")], None),
        (2, ONE_HOST, [not_named("n2")], {"n1": 2}),
        (5, ONE_RACK, [not_named("n2")], None),
        (3, ONE_RACK, [named("n2")], None),
        (2, ANYWHERE, [labelled("rack", "r1") + named("n2")], {"n2": 2}),
        (3, ANYWHERE, [labelled("rack", "r1") + named("n2")], None),
        (1, ANYWHERE, [labelled("rack", "r2") + named("n2")], None),
        (6, ANYWHERE, [labelled("rack", "r2"), named("n2")], {"n2": 2, "n3": 4}),
        (1, ANYWHERE, [named("gone")], None),
        (1, ANYWHERE, [()], None),
        (1, ANYWHERE, [(), named("n2")], {"n2": 1}),
        (2, ANYWHERE, [labelled("kind", "f") + named("n2")], {"n2": 2}),
        (2, ANYWHERE, [labelled("kind", "g") + named("n2")], None),
        (2, ANYWHERE, [labelled("kind", "g"), named("n2")], {"n2": 2}),
        (2, ANYWHERE, [labelled("metadata.name", "n2")], None),
    ],
)  # fmt: skip
def test_pods_are_placed_on_nodes_with_the_requested_names(
    count: int, near: TopologyRequest, terms: list[Term], stands: dict[str, int] | None
) -> None:
    """Terms are alternatives, and all expressions of one term must match. An empty term matches nothing. A label may
    have the name of the field. ``kind`` is a label of the flavor.
    """
    made = cluster(FLEET, [Q], waits("w", "q", pods(count, near, choice=needs(*terms), cpu=1)))
    assert decided(made) == (outcome({"w": {"main": stands}}) if stands else outcome(parked=["w"]))


def test_the_named_node_lacks_another_resource() -> None:
    nodes = [machine("n1", cpu=9, gpu=4), machine("n2", cpu=9, gpu=1)]
    made = cluster(nodes, [Q], waits("w", "q", pods(2, ANYWHERE, choice=needs(named("n2")), gpu=1)))
    assert decided(made) == outcome(parked=["w"])


def test_the_node_name_counts_and_not_the_host_name() -> None:
    """If they differ, the result lists the host name, as everywhere."""
    node = Node("vm-7", {"cpu": 4, "pods": 9}, labels={"rack": "r1", HOSTNAME: "n7", "kind": "f"})
    asks = [waits(name, name, pods(1, ANYWHERE, choice=needs(named(name)), cpu=1)) for name in ("vm-7", "n7")]
    made = cluster([node], [queue("vm-7", cpu=9), queue("n7", cpu=9)], *asks)
    assert decided(made) == outcome({"vm-7": {"main": {"n7": 1}}}, parked=["n7"])


def test_only_workloads_on_the_named_node_are_preempted() -> None:
    """n1 has the cheaper target."""
    cheap, dear = (
        runs(name, "q", pods(1, ONE_HOST, cpu=cores), {on: 1}, priority=priority)
        for name, on, cores, priority in (("cheap", "n1", 4, 1), ("dear", "n2", 2, 5))
    )
    fixed = waits("w", "q", pods(2, ONE_HOST, choice=needs(named("n2")), cpu=1), priority=9)
    made = cluster([N1, N2], [Q], cheap, dear, fixed)
    assert decided(made) == outcome(stops={"dear": ("w", "InClusterQueue")})
    made.carry_out()
    assert decided(made)["starts"] == {"w": {"main": {"n2": 2}}}


def test_fewer_pods_start_if_the_named_node_lacks_room_for_all() -> None:
    some = pods(4, ONE_RACK, least=1, choice=needs(named("n2")), cpu=1)
    assert decided(cluster(FLEET, [Q], waits("w", "q", some))) == outcome({"w": {"main": {"n2": 2}}})


@pytest.mark.parametrize(("leader", "worker"), [("n1", "n2"), ("n2", "n1")])
def test_a_leader_and_its_workers_keep_their_own_names(leader: str, worker: str) -> None:
    group = [
        pods(1, ONE_RACK, name="l", group="g", choice=needs(named(leader)), cpu=1),
        pods(2, ONE_RACK, name="w", group="g", choice=needs(named(worker)), cpu=1),
    ]
    assert decided(cluster(FLEET, [Q], waits("w", "q", *group))) == outcome({"w": {"l": {leader: 1}, "w": {worker: 2}}})


def test_two_pod_sets_of_one_workload_keep_their_own_names() -> None:
    both = [pods(2, ONE_HOST, name=name, choice=needs(named(name)), cpu=1) for name in ("n1", "n2")]
    assert decided(cluster(FLEET, [Q], waits("w", "q", *both))) == outcome({"w": {"n1": {"n1": 2}, "n2": {"n2": 2}}})


def test_without_a_topology_names_are_left_to_the_cluster_scheduler() -> None:
    asks = waits("w", "q", pods(2, ANYWHERE, choice=needs(named("n2")), cpu=1))
    assert decided(cluster([], [Q], asks)) == outcome({"w": {"main": 2}})


# ---------------------------------------------------------------- preferred

WANTED = Settings(gates={"TASRespectNodeAffinityPreferred": True})
PREFERS = NodeChoice(preferred=((10, labelled("disk", "fast")),))


def fast(node: Node, disk: str = "fast") -> Node:
    return replace(node, labels={**node.labels, "disk": disk})


def places(nodes: list[Node], *pod_sets: object, settings: Settings = WANTED) -> Decided:
    """Where the pods of one workload are placed."""
    return decided(cluster(nodes, [Q], waits("w", "q", *pod_sets), settings=settings))  # type: ignore[arg-type]


def stands(**main: int) -> Decided:
    return outcome({"w": {"main": main}})


TWO_AND_ONE = [fast(machine("a1", "r1", cpu=3)), fast(machine("a2", "r1", cpu=3)), fast(machine("b1", "r2", cpu=3))]
"""Two preferred nodes in one rack, and one that is alone in its own, which is tighter."""


@pytest.mark.parametrize("near", [ONE_RACK, replace(ONE_RACK, near=TopologyMode.PREFERRED), slices(3, "rack")])
def test_a_rack_counts_as_the_sum_of_its_preferred_nodes(near: TopologyRequest) -> None:
    assert places(TWO_AND_ONE, pods(3, near, choice=PREFERS, cpu=1)) == stands(a1=3)
    assert places(TWO_AND_ONE, pods(3, near, choice=PREFERS, cpu=1), settings=Settings()) == stands(b1=3)


def test_the_order_of_racks_does_not_matter() -> None:
    nodes = [fast(machine(name, rack, cpu=3)) for name, rack in (("a1", "r1"), ("b1", "r2"), ("b2", "r2"))]
    assert places(nodes, pods(3, ONE_RACK, choice=PREFERS, cpu=1)) == stands(b1=3)


def test_one_heavy_node_outweighs_two_light_ones() -> None:
    """25 against 2 × 10; a node that matches both terms counts for both."""
    heavy = NodeChoice(preferred=((10, labelled("disk", "fast")), (15, labelled("rack", "r2"))))
    assert places(TWO_AND_ONE, pods(3, ONE_RACK, choice=heavy, cpu=1)) == stands(b1=3)
    light = NodeChoice(preferred=((10, labelled("disk", "fast")), (5, labelled("rack", "r2"))))
    assert places(TWO_AND_ONE, pods(3, ONE_RACK, choice=light, cpu=1)) == stands(a1=3)


def test_a_preferred_name_counts_like_a_preferred_label() -> None:
    by_name = NodeChoice(preferred=((1, named("a2")),))
    assert places(TWO_AND_ONE, pods(3, ONE_RACK, choice=by_name, cpu=1)) == stands(a2=3)


def test_a_preferred_node_without_a_needed_resource_does_not_count() -> None:
    """a2 has no gpu: for pods that need one, both racks have one preferred node, and the tighter one is used."""
    nodes = [
        fast(machine("a1", "r1", cpu=9, gpu=4)),
        fast(machine("a2", "r1", cpu=9)),
        fast(machine("b1", "r2", cpu=9, gpu=3)),
    ]
    assert places(nodes, pods(3, ONE_RACK, choice=PREFERS, gpu=1)) == stands(b1=3)


def test_full_nodes_do_not_count() -> None:
    """Kueue counts them although the pods do not fit on them (docs/conformance.md)."""
    full = runs("full", "q", pods(3, ANYWHERE, cpu=1), {"a2": 3}, priority=9)
    made = cluster(TWO_AND_ONE, [Q], full, waits("w", "q", pods(3, ONE_RACK, choice=PREFERS, cpu=1)), settings=WANTED)
    assert decided(made) == stands(a1=3)
    tighter = [*TWO_AND_ONE[:2], machine("a3", "r1", cpu=1), TWO_AND_ONE[2]]
    made = cluster(tighter, [Q], full, waits("w", "q", pods(3, ONE_RACK, choice=PREFERS, cpu=1)), settings=WANTED)
    assert decided(made) == stands(b1=3)


def test_a_preferred_rack_that_is_too_small_is_not_used() -> None:
    nodes = [fast(machine("a1", "r1", cpu=2)), fast(machine("a2", "r1", cpu=1)), machine("b1", "r2", cpu=9)]
    assert places(nodes, pods(4, ONE_RACK, choice=PREFERS, cpu=1)) == stands(b1=4)


def test_leader_and_workers_go_to_the_rack_that_the_workers_prefer() -> None:
    leader = pods(1, ONE_RACK, name="l", group="g", cpu=1)
    workers = pods(2, ONE_RACK, name="w", group="g", choice=PREFERS, cpu=1)
    assert places(TWO_AND_ONE, leader, workers) == outcome({"w": {"l": {"a1": 1}, "w": {"a1": 2}}})


def test_reserved_nodes_count_when_a_workload_is_evaluated_again() -> None:
    """*second* loses its nodes to *first* and is evaluated again: a2 is still preferred to b1, which is tighter."""
    nodes = [fast(machine("a1", "r1", cpu=4)), fast(machine("a2", "r1", cpu=4)), machine("b1", "r2", cpu=3)]
    first, second = (
        waits(name, to, pods(3, ONE_HOST, choice=PREFERS, cpu=1), priority=priority)
        for name, to, priority in (("first", "q", 2), ("second", "p", 1))
    )
    made = cluster(nodes, [Q, queue("p", cpu=99)], first, second, settings=WANTED)
    assert decided(made) == outcome({"first": {"main": {"a1": 3}}, "second": {"main": {"a2": 3}}})
