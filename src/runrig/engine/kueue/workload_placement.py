"""Where the pods of a whole workload go, once its flavors are chosen (law T1).

A pod set that asks for a topology takes only flavors that have one, with the levels that it names, and all its resources from one
of them.  In a queue of which every flavor has a topology, a pod set that asks for nothing is placed too, anywhere.
Pure: rooms are read here; who decides occupies them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runrig.domain.kueue import ClusterQueue, Placed, System, TopologyMode, TopologyRequest, WorkloadPodSet
from runrig.engine.kueue.fit_counts import PodSetFitCounts, PodSetRequest
from runrig.engine.kueue.node_tree import LeafCapacity, NodeTree, Reservation, node_trees, reservation
from runrig.engine.kueue.podset_placement import Misfit, Placing, place_pod_set

ANYWHERE = TopologyRequest()


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadPlacement:
    """What pod sets of a workload take: *reservations* of rooms, and for people *of*: by place of the pod set.

    *assumed*: the same as *reservations*, by room, for pod sets that come after.
    """

    reservations: tuple[Reservation, ...] = ()
    of: dict[int, tuple[Placed, ...]] = field(default_factory=dict)
    assumed: dict[LeafCapacity, dict[str, int]] = field(default_factory=dict)

    def and_also(self, other: "WorkloadPlacement") -> "WorkloadPlacement":
        """Both together."""
        assumed = {room: dict(amounts) for room, amounts in self.assumed.items()}
        for room, amounts in other.reservations:
            mine = assumed.setdefault(room, {})
            for resource, amount in amounts:
                mine[resource] = mine.get(resource, 0) + amount
        return WorkloadPlacement((*self.reservations, *other.reservations), {**self.of, **other.of}, assumed)


NOWHERE = WorkloadPlacement()
"""Of a workload that asks for no topology."""


class WorkloadPlacer:
    """The trees of all flavors with a topology, and how the gates have pods placed in them."""

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
        """What each pod set asks, said or implied by its queue; None: it is not placed."""
        if not self._on:
            return (None,) * len(pod_sets)
        flavors = [flavor for group in queue.groups for flavor in group.flavors]
        implied = ANYWHERE if flavors and all(flavor in self.trees for flavor in flavors) else None
        return tuple(each.topology or implied for each in pod_sets)

    def misfit(self, flavor: str, requests: Sequence[TopologyRequest | None], *, alone: bool) -> str | None:
        """Why pod sets with these *requests* cannot take *flavor*.  *alone*: they take all their resources from it."""
        if not self._on:
            return None
        tree = self.trees.get(flavor)
        for request in requests:
            if request is None:
                if tree is not None:
                    return "its nodes are for work that asks for a topology"
            elif tree is None:
                return "it has no topology"
            elif not alone:
                return "with a topology all resources come from one flavor"
            elif not _levels(request) <= set(tree.levels):
                return "its topology has not the level that is asked for"
        return None

    # ------------------------------------------------------------ placing

    def place(
        self,
        flavor: str,
        members: Sequence[tuple[int, WorkloadPodSet, TopologyRequest | None, int]],
        before: WorkloadPlacement,
        *,
        empty: bool = False,
    ) -> WorkloadPlacement | Misfit:
        """Where *members* go, each (place, pod set, request, pods), beside *before*; *empty*: as if no work held any node.

        Two pod sets of one group, one of a single pod, are a leader and its workers, near each other; all others one by one.
        """
        tree = self.trees.get(flavor)
        members = [each for each in members if each[2] is not None and each[3]]
        if tree is None or not members:
            return NOWHERE
        leader = min(members, key=lambda each: each[3])
        if len(members) == 2 and leader[3] == 1 and leader[1].group is not None:
            workers = next(each for each in members if each is not leader)
            return self._one(tree, workers, before, leader=leader, empty=empty)
        found, sofar = NOWHERE, before
        for each in members:
            one = self._one(tree, each, sofar, leader=None, empty=empty)
            if isinstance(one, Misfit):
                return one
            found, sofar = found.and_also(one), sofar.and_also(one)
        return found

    def _one(
        self,
        tree: NodeTree,
        member: tuple[int, WorkloadPodSet, TopologyRequest | None, int],
        before: WorkloadPlacement,
        *,
        leader: tuple[int, WorkloadPodSet, TopologyRequest | None, int] | None,
        empty: bool,
    ) -> WorkloadPlacement | Misfit:
        at, pod_set, request, count = member
        assert request is not None
        if not _sound(tree, request) or (len(request.slices) > 1 and not self._gates["TASMultiLayerTopology"]):
            return Misfit(0, count)
        ask = PodSetRequest(tree, request, count, pod_set.requests, pod_set.nodes)
        if leader is not None:
            ask.lead_by(leader[1].requests, leader[1].nodes)
        by_affinity = self._gates["TASRespectNodeAffinityPreferred"]
        counts = PodSetFitCounts(tree, ask, before.assumed, empty=empty, by_affinity=by_affinity)
        placing = place_pod_set(
            tree,
            ask,
            counts,
            least_free=self._least_free(request.near),
            even=self._gates["TASBalancedPlacement"],
        )
        if isinstance(placing, Misfit):
            return placing
        return _places(placing, (at, pod_set), None if leader is None else leader[:2])

    def _least_free(self, near: TopologyMode) -> bool:
        if self._gates["TASProfileLeastFreeCapacity"]:
            return True
        return self._gates["TASProfileMixed"] and near in (TopologyMode.UNCONSTRAINED, TopologyMode.SLICES)


def _sound(tree: NodeTree, request: TopologyRequest) -> bool:
    """Slices have a size, and each layer is finer than the one around it and divides it."""
    places = [tree.levels.index(each.level) for each in request.slices]
    sizes = [each.size for each in request.slices]
    return all(sizes) and all(
        places[at] < places[at + 1] and not sizes[at] % sizes[at + 1] for at in range(len(sizes) - 1)
    )


def _levels(request: TopologyRequest) -> set[str]:
    """The levels that it names."""
    return {level for level in (request.level, *(each.level for each in request.slices)) if level}


def _places(
    placing: Placing, workers: tuple[int, WorkloadPodSet], leader: tuple[int, WorkloadPodSet] | None
) -> WorkloadPlacement:
    spots: list[Reservation] = []
    of: dict[int, tuple[Placed, ...]] = {}
    for leaf, count, leads in placing:
        assert leaf.room is not None
        if count:
            spots.append(reservation(leaf.room, workers[1].requests, count))
        if leads and leader is not None:
            spots.append(reservation(leaf.room, leader[1].requests, 1))
            of[leader[0]] = (Placed(leaf.values, 1),)
    of[workers[0]] = tuple(Placed(leaf.values, count) for leaf, count, _ in placing if count)
    return NOWHERE.and_also(WorkloadPlacement(tuple(spots), of))


FindsPlacement = Callable[[], bool]
"""Whether everything has a place, as rooms stand now."""
