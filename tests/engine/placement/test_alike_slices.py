"""Slices that need a host each are placed all at once, as they would be one by one (laws T1, T2)."""

from collections.abc import Sequence
from random import Random

from runrig.domain.gangs import PodSet, Requirement
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.domain.quantities import GPU, requests_of
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.best_fit import BestFit
from runrig.engine.placement.constraint_tree import constraints_of
from runrig.engine.placement.demand import Demand, PodRequest, assign_to_pod_sets, demand_of, shapes_of
from runrig.engine.placement.trial_capacity import TrialCapacity
from runrig.engine.quota.quota_node import CHARGED

KEYS = (TopologyKey("rack", "rack"), TopologyKey("host", HOSTNAME))
RACK_AND_HOSTS = (Requirement("rack", slice_size=12), Requirement("host", slice_size=3))


class OneByOne(BestFit):
    def _put_alike(self, need: Demand, outer: Domain) -> bool:
        return False


def cluster(free: Sequence[int], per_rack: int) -> ClusterNodes:
    nodes = ClusterNodes()
    nodes.set_flavors({DEFAULT_FLAVOR: Flavor(DEFAULT_FLAVOR)})
    for at, gpus in enumerate(free):
        name = f"n{at:02}"
        labels = {"rack": f"r{at // per_rack:02}", HOSTNAME: name}
        nodes.put(Node(name, {GPU: gpus}, flavor=DEFAULT_FLAVOR, labels=labels))
    return nodes


def placed(attempt: type[BestFit], nodes: ClusterNodes, pods: int) -> object:
    pod_set = PodSet("main", pods, requests_of({GPU: 1}), topology=RACK_AND_HOSTS)
    constraints = constraints_of(KEYS, (pod_set,), (pods,))
    assert constraints is not None
    requests = [PodRequest(pod_set.requests, DEFAULT_FLAVOR, pods)]
    shapes = shapes_of(requests)
    root = demand_of(constraints.root, requests, shapes)
    capacity = TrialCapacity(nodes, constraints.labels, shapes, (CHARGED,))
    whole = capacity.topology.whole(labelled=True)
    room = [level.tolist() for level in capacity.counts(0).levels]
    search = attempt(capacity, single=False, fixed_domains={})
    found = search.put(root, whole)
    shares = assign_to_pod_sets(capacity.topology, root, requests, search.placements) if found else None
    search.undo()
    assert [level.tolist() for level in capacity.counts(0).levels] == room, "all is taken back"
    return shares


def test_slices_that_need_a_host_each_stand_as_if_they_were_placed_one_by_one() -> None:
    found = 0
    for seed in range(150):
        rng = Random(seed)
        per_rack = rng.choice((2, 4, 9, 40))
        nodes = cluster([rng.randrange(8) for _ in range(rng.randrange(3, 45))], per_rack)
        pods = 3 * rng.randrange(1, 14)
        at_once = placed(BestFit, nodes, pods)
        assert at_once == placed(OneByOne, nodes, pods), seed
        found += at_once is not None
    assert 40 < found < 145, found
