"""Equal slices are placed together with the same result as one by one (rules T1, T2)."""

from collections.abc import Sequence
from random import Random

from runrig.domain.gangs import PodSet, Requirement
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.domain.quantities import CPU, GPU, requests_of
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.best_fit import BestFit
from runrig.engine.placement.constraint_tree import constraints_of
from runrig.engine.placement.demand import Demand, PodRequest, assign_to_pod_sets, demand_of, score_of, shapes_of
from runrig.engine.placement.trial_capacity import TrialCapacity
from runrig.engine.quota.quota_node import CHARGED

KEYS = (TopologyKey("block", "block"), TopologyKey("rack", "rack"), TopologyKey("host", HOSTNAME))


class OneByOne(BestFit):
    def _put_slices(self, need: Demand, outer: Domain) -> bool | None:
        return None


class Counting(BestFit):
    asked = 0

    def put(self, need: Demand, outer: Domain) -> bool:
        Counting.asked += 1
        return super().put(need, outer)


def cluster(free: Sequence[int], per_rack: int, per_block: int) -> ClusterNodes:
    nodes = ClusterNodes()
    nodes.set_flavors({DEFAULT_FLAVOR: Flavor(DEFAULT_FLAVOR)})
    for at, gpus in enumerate(free):
        name = f"n{at:02}"
        rack = at // per_rack
        labels = {"block": f"b{rack // per_block:02}", "rack": f"r{rack:02}", HOSTNAME: name}
        nodes.put(Node(name, {GPU: gpus, CPU: 9}, flavor=DEFAULT_FLAVOR, labels=labels))
    return nodes


def asked(rng: Random) -> tuple[PodSet, ...]:
    """A pod set with slices; often another one, which may already be in its racks and hosts."""
    size, part = rng.choice(((2, 1), (4, 2), (5, 5), (6, 3), (12, 3), (12, 4)))
    block = Requirement("block", required=rng.random() < 0.8)
    hosts = (Requirement("host", slice_size=part),) if rng.random() < 0.5 else ()
    near = (block, Requirement("rack", slice_size=size), *hosts)
    main = PodSet("main", size * rng.randrange(1, 8), requests_of({GPU: 1}), topology=near)
    if rng.random() < 0.3:
        return (main,)
    amounts = {GPU: 1} if rng.random() < 0.7 else {CPU: 2}
    apart = (Requirement("block", group="beside"), Requirement("rack", group="beside", required=rng.random() < 0.5))
    beside = PodSet("beside", rng.randrange(1, 50), requests_of(amounts), topology=apart)
    return (main, beside) if rng.random() < 0.5 else (beside, main)


def placed(attempt: type[BestFit], nodes: ClusterNodes, pod_sets: tuple[PodSet, ...]) -> object:
    """The shares of each pod set, and their score; None if no placement was found."""
    constraints = constraints_of(KEYS, pod_sets, tuple(each.count for each in pod_sets))
    assert constraints is not None
    requests = [PodRequest(each.requests, DEFAULT_FLAVOR, each.count) for each in pod_sets]
    shapes = shapes_of(requests)
    root = demand_of(constraints.root, requests, shapes)
    capacity = TrialCapacity(nodes, constraints.labels, shapes, (CHARGED,))
    whole = capacity.topology.whole(labelled=True)
    room = [level.tolist() for shape in range(len(shapes)) for level in capacity.counts(shape).levels]
    search = attempt(capacity, root, {})
    shares = None
    if search.put(root, whole):
        shares = (
            assign_to_pod_sets(capacity.topology, root, requests, search.placements),
            score_of(capacity.topology, root, search.placements),
        )
    search.undo()
    after = [level.tolist() for shape in range(len(shapes)) for level in capacity.counts(shape).levels]
    assert after == room, "all is taken back"
    return shares


def test_equal_slices_are_placed_as_if_one_by_one() -> None:
    found = 0
    for seed in range(600):
        rng = Random(seed)
        sizes = rng.choice(((0, 1, 2, 3, 5, 7), (0, 2, 4, 5), (1, 2, 8), (2, 3, 5, 6, 7)))
        nodes = cluster([rng.choice(sizes) for _ in range(rng.randrange(3, 70))], rng.choice((1, 3, 7, 7, 40)), 6)
        pod_sets = asked(rng)
        at_once = placed(BestFit, nodes, pod_sets)
        assert at_once == placed(OneByOne, nodes, pod_sets), seed
        found += at_once is not None
    assert 150 < found < 550, found


def test_eight_slices_of_eight_hosts_are_placed_in_one_step() -> None:
    """One step for the gang, and one for its block."""
    near = (Requirement("block"), Requirement("rack", slice_size=24), Requirement("host", slice_size=3))
    Counting.asked = 0
    assert placed(Counting, cluster([3] * 90, 9, 10), (PodSet("main", 192, requests_of({GPU: 1}), topology=near),))
    assert Counting.asked == 2
