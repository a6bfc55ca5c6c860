"""A gang that fits on one node and can go anywhere gets the node that best fit would choose, without the search (rules
T1, T2).
"""

from random import Random

from runrig.domain.gangs import NodeShare
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.quantities import CPU, GPU, requests_of
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.best_fit import BestFit
from runrig.engine.placement.constraint_tree import ConstraintNode, PlacementConstraints
from runrig.engine.placement.demand import PodRequest, assign_to_pod_sets
from runrig.engine.placement.place import Asked, Layout, has_place, needs_of, place
from runrig.engine.placement.trial_capacity import TrialCapacity
from runrig.engine.quota.quota_node import CHARGED, LAYERS

LABELS = ("zone", "rack", "host")
REQUESTS = requests_of({GPU: 1, CPU: 2})


def cluster(rng: Random) -> ClusterNodes:
    """Up to 90 nodes, many of them equal, in uneven racks; some lack a label, are cordoned, or are used in one layer."""
    nodes = ClusterNodes()
    nodes.set_flavors({DEFAULT_FLAVOR: Flavor(DEFAULT_FLAVOR)})
    racks, most = rng.randrange(1, 9), rng.randrange(1, 9)
    for at in range(rng.randrange(1, 90)):
        labels = {"zone": f"z{rng.randrange(2)}", "rack": f"r{rng.randrange(racks)}", "host": f"h{at % 40}"}
        if not rng.randrange(12):
            del labels[rng.choice(LABELS)]
        resources = {GPU: rng.randrange(most), CPU: rng.choice((4, 16))}
        name = f"n{at:02}"
        nodes.put(Node(name, resources, flavor=DEFAULT_FLAVOR, labels=labels, ready=rng.random() < 0.9))
        for layer in LAYERS:
            nodes.hold((NodeShare(name, rng.randrange(2)),), REQUESTS, layer)
    return nodes


def best_fit(
    nodes: ClusterNodes, asked: Asked, layers: tuple[int, ...], within: Domain
) -> tuple[tuple[NodeShare, ...], ...] | None:
    shapes, root = needs_of(asked)
    capacity = TrialCapacity(nodes, asked.constraints.labels, shapes, layers)
    search = BestFit(capacity, root, {})
    found = search.put(root, within)
    return assign_to_pod_sets(capacity.topology, root, asked.requests, search.placements) if found else None


def test_a_gang_that_fits_on_one_node_gets_the_choice_of_best_fit() -> None:
    """T1, T2."""
    on_one = nowhere = 0
    for seed in range(400):
        rng = Random(seed)
        nodes = cluster(rng)
        labels = LABELS[: rng.randrange(4)]
        topology = nodes.topology(labels)
        level = rng.randrange(-1, len(labels))
        within = topology.domain(level, rng.randrange(len(topology.starts[level]) - 1)) if level >= 0 else None
        request = PodRequest(REQUESTS, DEFAULT_FLAVOR, rng.choice((1, 1, 2, 3, 9)))
        constraints = PlacementConstraints(labels, ConstraintNode(-1, False, ((0, request.pods),)), False)
        layers = rng.choice(((CHARGED,), LAYERS))
        asked = Asked((request,), constraints)
        expected = best_fit(nodes, asked, layers, within or topology.whole(labelled=False))
        assert place(nodes, asked, layers, within) == Layout(expected), seed
        assert has_place(nodes, asked, layers, within) == (expected is not None), seed
        on_one += expected is not None and len(expected[0]) == 1
        nowhere += expected is None
    assert on_one > 150
    assert nowhere > 20
