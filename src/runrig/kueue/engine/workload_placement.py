"""Places the pods of a workload on nodes after its flavors are chosen (rule T1).

A pod set with a topology request only gets flavors whose topology has the levels it names, and all its resources come
from one flavor. If every flavor of a queue has a topology, its other pod sets are also placed, without constraints.
The search restores the nodes; the caller reserves the placement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from runrig.engine.nodes.topology import TopologyIndex
from runrig.engine.quota.quota_node import CHARGED
from runrig.kueue.declared import ClusterQueue, Placed, System, TopologyMode, TopologyRequest, WorkloadPodSet
from runrig.kueue.engine.greedy_fit import Misfit, Placing, place_pod_set
from runrig.kueue.engine.node_tree import NO_WORK, NodeTree, Reservation, node_trees, release, reserve
from runrig.kueue.engine.podset_counts import PodSetCounts, PodSetRequest

Member = tuple[int, WorkloadPodSet, TopologyRequest | None, int]
"""(index of the pod set, the pod set, its topology request, number of pods)."""

ANYWHERE = TopologyRequest()


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadPlacement:
    """The nodes of a workload's pod sets. *of*: index of the pod set → its domains, for display."""

    reservations: tuple[Reservation, ...] = ()
    of: dict[int, tuple[Placed, ...]] = field(default_factory=dict)

    def and_also(self, other: "WorkloadPlacement") -> "WorkloadPlacement":
        """The combination of both placements."""
        return WorkloadPlacement((*self.reservations, *other.reservations), {**self.of, **other.of})


NOWHERE = WorkloadPlacement()
"""The placement of a workload that has no topology request."""


class WorkloadPlacer:
    """Places pod sets in the trees of the flavors that have a topology, as the feature gates prescribe."""

    def __init__(self, system: System, gates: Mapping[str, bool]) -> None:
        self._gates = gates
        on = gates["TopologyAwareScheduling"]
        self.trees: Mapping[str, NodeTree] = node_trees(
            system.flavors if on else (),
            system.topologies,
            system.nodes,
            overlapping=gates["TASHandleOverlappingFlavors"],
        )
        self._on = on and bool(system.topologies)

    def requests(self, queue: ClusterQueue, pod_sets: Sequence[WorkloadPodSet]) -> tuple[TopologyRequest | None, ...]:
        """The topology request of each pod set, either its own or implied by *queue*; None: it is not placed."""
        if not self._on:
            return (None,) * len(pod_sets)
        flavors = [flavor for group in queue.groups for flavor in group.flavors]
        implied = ANYWHERE if flavors and all(flavor in self.trees for flavor in flavors) else None
        return tuple(pod_set.topology or implied for pod_set in pod_sets)

    def misfit(self, flavor: str, requests: Sequence[TopologyRequest | None], *, alone: bool) -> str | None:
        """Why pod sets with these *requests* cannot use *flavor*; None if they can. *alone*: it provides all their
        resources.
        """
        if not self._on:
            return None
        tree = self.trees.get(flavor)
        for request in requests:
            if request is None:
                if tree is not None:
                    return "its nodes are reserved for work that requests a topology"
            elif tree is None:
                return "it has no topology"
            elif not alone:
                return "with a topology, all resources must come from one flavor"
            elif not _levels(request) <= set(tree.topology.labels):
                return "its topology does not have the requested level"
        return None

    # ------------------------------------------------------------ placing

    def place(
        self, flavor: str, members: Sequence[Member], before: WorkloadPlacement, *, empty: bool = False
    ) -> WorkloadPlacement | Misfit:
        """A placement of *members* in addition to *before*. *empty*: as if no workload used any node.

        If two pod sets form a group and one has a single pod, they are a leader and its workers and are placed
        together; all others are placed one by one.
        """
        tree = self.trees.get(flavor)
        members = [member for member in members if member[2] is not None and member[3]]
        if tree is None or not members:
            return NOWHERE
        leader, members = _led(members)
        layer = NO_WORK if empty else CHARGED
        placement, latest = NOWHERE, before
        on_trial: list[Reservation] = []
        try:
            for member in members:
                reserve(latest.reservations, layer)
                on_trial += latest.reservations
                pod_set = self._place_pod_set(tree, member, leader, layer)
                if isinstance(pod_set, Misfit):
                    return pod_set
                placement, latest = placement.and_also(pod_set), pod_set
            return placement
        finally:
            release(on_trial, layer)

    def _place_pod_set(
        self, tree: NodeTree, member: Member, leader: Member | None, layer: int
    ) -> WorkloadPlacement | Misfit:
        _, pod_set, request, count = member
        levels = tree.topology.labels
        assert request is not None
        if not _sound(levels, request) or (len(request.slices) > 1 and not self._gates["TASMultiLayerTopology"]):
            return Misfit(0, count)
        ask = PodSetRequest(levels, request, count, pod_set.requests, pod_set.nodes)
        if leader is not None:
            ask.lead_by(leader[1].requests, leader[1].nodes)
        leaves = tree.fit(ask, layer, by_affinity=self._gates["TASRespectNodeAffinityPreferred"])
        placing = place_pod_set(
            tree.topology,
            ask,
            PodSetCounts(tree.topology, ask, leaves),
            least_free=self._least_free(request.near),
            even=self._gates["TASBalancedPlacement"],
        )
        return placing if isinstance(placing, Misfit) else _placement(tree.topology, placing, ask, member, leader)

    def _least_free(self, near: TopologyMode) -> bool:
        if self._gates["TASProfileLeastFreeCapacity"]:
            return True
        return self._gates["TASProfileMixed"] and near in (TopologyMode.UNCONSTRAINED, TopologyMode.SLICES)


def _led(members: list[Member]) -> tuple[Member | None, list[Member]]:
    """(the leader or None, the other members). The second pod set leads, unless it is the larger one."""
    if len(members) != 2 or members[0][1].group is None:
        return None, members
    workers, leader = members if members[1][3] <= members[0][3] else reversed(members)
    return (leader, [workers]) if leader[3] == 1 else (None, members)


def _sound(levels: Sequence[str], request: TopologyRequest) -> bool:
    """Whether every slice has a size, and each inner layer has a finer level and a size that divides the outer one's."""
    layers = [(levels.index(layer.level), layer.size) for layer in request.slices]
    return all(size for _, size in layers) and all(
        outer < inner and not size % part for (outer, size), (inner, part) in pairwise(layers)
    )


def _levels(request: TopologyRequest) -> set[str]:
    return {level for level in (request.level, *(layer.level for layer in request.slices)) if level}


def _placement(
    topology: TopologyIndex, placing: Placing, ask: PodSetRequest, workers: Member, leader: Member | None
) -> WorkloadPlacement:
    reservations: list[Reservation] = []
    of: dict[int, tuple[Placed, ...]] = {}
    for index, count, leads in placing:
        leaf = topology.nodes[index]
        if count:
            reservations.append(Reservation(leaf, ask.requests, count))
        if leads and leader is not None and ask.leader is not None:
            reservations.append(Reservation(leaf, ask.leader, 1))
            of[leader[0]] = (Placed(topology.paths[index], 1),)
    of[workers[0]] = tuple(Placed(topology.paths[index], count) for index, count, _ in placing if count)
    return WorkloadPlacement(tuple(reservations), of)


FindsPlacement = Callable[[], bool]
"""Returns whether all pods can be placed on the nodes as they are now."""
