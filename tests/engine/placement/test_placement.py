"""Where pods are placed: exactly, completely, and so that large free nodes stay whole (rules T1, T2)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.gangs import NodeShare
from runrig.domain.nodes import Flavor, Node, Taint
from runrig.domain.quantities import CPU, GPU, MEMORY, Requests, requests_of
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.node_capacity import EMPTY, NO_BOUND
from runrig.engine.nodes.topology import ROOT
from runrig.engine.placement import best_fit, exact_search
from runrig.engine.placement import place as placing
from runrig.engine.placement.constraint_tree import ConstraintNode, PlacementConstraints
from runrig.engine.placement.demand import PodRequest
from runrig.engine.placement.place import Asked, Layout, pods_that_fit
from runrig.engine.quota.quota_node import CHARGED, REAL
from tests.properties.oracle import packs

NOW = (CHARGED,)
DEFAULT = "default"


def rooms(**nodes: int | Node) -> ClusterNodes:
    """Nodes by name: GPUs, or the node itself."""
    room = ClusterNodes()
    room.set_flavors({DEFAULT: Flavor(DEFAULT)})
    for name, node in nodes.items():
        room.put(Node(name, {GPU: node}) if isinstance(node, int) else node)
    return room


def pods(count: int, gpus: int = 1, **more: int) -> PodRequest:
    return PodRequest(requests_of({GPU: gpus, **more}), DEFAULT, count)


def place(nodes: ClusterNodes, requests: list[PodRequest], layers: tuple[int, ...]) -> Layout:
    """Places pods that can go to any nodes, in a pool without topology keys."""
    anywhere = ConstraintNode(ROOT, False, tuple((at, each.pods) for at, each in enumerate(requests)))
    return placing.place(nodes, Asked(tuple(requests), PlacementConstraints((), anywhere, False)), layers)


def on(*shares: tuple[str, int]) -> tuple[NodeShare, ...]:
    return tuple(NodeShare(name, count) for name, count in shares)


# ---------------------------------------------------------------- best fit


def test_the_tightest_single_node_is_used_if_one_is_enough() -> None:
    """T2."""
    assert place(rooms(n0=8, n1=4, n2=6), [pods(4)], NOW) == Layout((on(("n1", 4)),))


def test_equally_tight_nodes_are_used_by_name() -> None:
    assert place(rooms(n2=4, n1=4), [pods(1)], NOW) == Layout((on(("n1", 1)),))


def test_otherwise_the_fewest_nodes_are_used_and_the_rest_goes_to_the_tightest() -> None:
    """T2."""
    assert place(rooms(n0=8, n1=3, n2=5, n3=2), [pods(10)], NOW) == Layout((on(("n0", 8), ("n3", 2)),))


def test_the_largest_shape_is_placed_first() -> None:
    assert place(rooms(n0=4, n1=2), [pods(2), pods(1, gpus=4)], NOW) == Layout((on(("n1", 2)), on(("n0", 1))))


def test_pods_without_requests_still_need_a_node() -> None:
    assert place(rooms(n0=0), [PodRequest((), DEFAULT, 5)], NOW) == Layout((on(("n0", 5)),))
    assert place(rooms(), [PodRequest((), DEFAULT, 5)], NOW) == Layout(None)
    assert rooms(n0=0).by_name["n0"].pods((), CHARGED) == NO_BOUND


def test_no_pods_need_no_node() -> None:
    assert place(rooms(), [pods(0)], NOW) == Layout(((),))


# ---------------------------------------------------------------- nodes and what is free on them


def test_unready_tainted_and_other_flavors_nodes_accept_no_pods() -> None:
    tainted = Node("n2", {GPU: 4}, taints=(Taint("maintenance"),))
    room = rooms(n0=Node("n0", {GPU: 4}, ready=False), n1=Node("n1", {GPU: 4}, flavor="other"), n2=tainted)
    assert place(room, [pods(1)], NOW) == Layout(None)
    room.set_flavors({DEFAULT: Flavor(DEFAULT, taints=(Taint("maintenance"),))})
    assert place(room, [pods(1)], NOW) == Layout((on(("n2", 1)),))


def test_the_view_of_the_empty_cluster_includes_unready_nodes_and_no_usage() -> None:
    """P3."""
    room = rooms(n0=Node("n0", {GPU: 4}, ready=False), n1=2)
    room.hold(on(("n1", 2)), requests_of({GPU: 1}), REAL)
    room.hold(on(("n1", 2)), requests_of({GPU: 1}), CHARGED)
    assert place(room, [pods(6)], NOW) == Layout(None)
    assert place(room, [pods(6)], (EMPTY,)) == Layout((on(("n0", 4), ("n1", 2)),))


def test_free_is_the_minimum_over_the_layers() -> None:
    """R4: reserved room and room still in use both do not count."""
    room = rooms(n0=4, n1=4)
    room.hold(on(("n0", 2)), requests_of({GPU: 1}), REAL)
    room.hold(on(("n1", 3)), requests_of({GPU: 1}), CHARGED)
    assert place(room, [pods(3)], NOW) == Layout((on(("n0", 3)),))
    assert place(room, [pods(3)], (CHARGED, REAL)) == Layout((on(("n0", 2), ("n1", 1)),))
    assert pods_that_fit(room, pods(9), (CHARGED, REAL)) == 3


def test_unlisted_cpu_and_memory_are_unlimited_and_other_resources_do_not_exist() -> None:
    room = rooms(n0=4)
    assert place(room, [pods(1, cpu=64000, memory=1 << 60)], NOW).shares is not None
    assert place(room, [pods(1, fpga=1)], NOW) == Layout(None)
    listed = rooms(n0=Node("n0", {GPU: 4, CPU: 1000, MEMORY: 10}))
    assert place(listed, [pods(2, cpu=1000)], NOW) == Layout(None)


def test_gpus_are_assigned_lowest_first_and_returned_in_order() -> None:
    room = rooms(n0=4)
    spoken: dict[str, int] = {}
    asked = requests_of({GPU: 2})
    shares = [*room.with_gpus(on(("n0", 1)), asked, spoken), *room.with_gpus(on(("n0", 1)), asked, spoken)]
    assert shares == [NodeShare("n0", 1, (0, 1)), NodeShare("n0", 1, (2, 3))]
    room.take_gpus(shares)
    assert room.by_name["n0"].gpus == []
    room.return_gpus(shares[1:])
    room.return_gpus(shares[:1])
    assert room.by_name["n0"].gpus == [0, 1, 2, 3]


def test_a_gpu_that_the_node_lost_does_not_return() -> None:
    room = rooms(n0=4)
    room.put(Node("n0", {GPU: 2}))
    room.return_gpus([NodeShare("n0", 4, (0, 1, 2, 3))])
    assert room.by_name["n0"].gpus == [0, 1]


# ---------------------------------------------------------------- exact, within a search limit

amounts = st.integers(0, 3)
shapes = st.builds(lambda gpus, cpu: requests_of({GPU: gpus, CPU: cpu}), amounts, amounts)
asks = st.lists(
    st.builds(
        lambda shape, count, flavor: PodRequest(shape, flavor, count),
        shapes,
        st.integers(1, 4),
        st.sampled_from("fffg"),
    ),
    min_size=1,
    max_size=3,
)
machines = st.lists(
    st.builds(
        lambda gpus, cpu, flavor: Node("", {GPU: gpus, CPU: cpu}, flavor),
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from("fffg"),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(machines, asks)
def test_a_valid_placement_is_found_exactly_if_there_is_one(nodes: list[Node], wanted: list[PodRequest]) -> None:
    """T1, against trying everything."""
    room = ClusterNodes()
    room.set_flavors({name: Flavor(name) for name in "fg"})
    for at, node in enumerate(nodes):
        room.put(Node(f"n{at}", node.resources, node.flavor))
    free = {f"n{at}": dict(node.resources) for at, node in enumerate(nodes)}
    flavors = {f"n{at}": node.flavor for at, node in enumerate(nodes)}
    one_by_one: list[tuple[Requests, str]] = [(each.requests, each.flavor) for each in wanted for _ in range(each.pods)]
    layout = place(room, wanted, NOW)
    assert layout.proven
    assert (layout.shares is not None) == packs(
        sorted(one_by_one, reverse=True), {name: dict(left) for name, left in free.items()}, flavors
    )
    if layout.shares is None:
        return
    for each, shares in zip(wanted, layout.shares, strict=True):
        assert sum(share.count for share in shares) == each.pods
        for share in shares:
            assert flavors[share.node] == each.flavor
            for resource, amount in each.requests:
                free[share.node][resource] -= amount * share.count
    assert all(left >= 0 for node in free.values() for left in node.values())


def test_a_search_beyond_its_limit_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """T1: a fixed number of steps, and no clock."""
    room = rooms(n0=Node("n0", {GPU: 4, CPU: 2}), n1=Node("n1", {GPU: 3, CPU: 4}))
    wanted = [pods(2, gpus=2, cpu=1), pods(1, gpus=3, cpu=1)]
    monkeypatch.setattr(best_fit, "PACKING_STEPS", 0)
    monkeypatch.setattr(exact_search, "BUDGET", 1)
    assert place(room, wanted, NOW) == Layout(None, proven=False)


def test_a_refusal_by_counting_alone_is_proven_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_search, "BUDGET", 0)
    assert place(rooms(n0=3), [pods(2), pods(1, gpus=2)], NOW) == Layout(None, proven=False)
    assert place(rooms(n0=3), [pods(4), pods(1, gpus=2)], NOW) == Layout(None, proven=True)


def test_a_search_leaves_no_trace() -> None:
    room = rooms(n0=2, n1=2)
    place(room, [pods(1, gpus=2), pods(3)], NOW)
    assert {name: dict(node.free[CHARGED]) for name, node in room.by_name.items()} == {"n0": {GPU: 2}, "n1": {GPU: 2}}
