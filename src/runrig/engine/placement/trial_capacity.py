"""What is free while one gang is being placed: the counts of its shapes, with what the search itself has put there taken off.

Everything put down can be taken back, in the reverse order; the room itself is not touched.
"""

from collections.abc import Sequence

from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.fit_counts import FitCounts, PodShape
from runrig.engine.nodes.node_capacity import pods_in
from runrig.engine.nodes.topology import Domain, Ints


class TrialCapacity:
    """*shapes*: those of the gang; counts are asked for by their place there."""

    def __init__(
        self, room: ClusterNodes, labels: tuple[str, ...], shapes: Sequence[PodShape], layers: Sequence[int]
    ) -> None:
        self.topology = room.topology(labels)
        self._room, self._labels = room, labels
        self.shapes = shapes
        self._layers = tuple(layers)
        self._counts = [room.counts(labels, each, self._layers) for each in shapes]
        self._own = False
        self._free: dict[int, dict[str, int]] = {}
        self._put: list[tuple[int, int, int]] = []

    def counts(self, shape: int) -> FitCounts:
        return self._counts[shape]

    def column(self, resource: str) -> Ints:
        """Per node, what is free of *resource* before anything is put down here."""
        return self._room.free(self._labels, resource, self._layers[0])

    def level(self, shape: int, domain: Domain, level: int) -> tuple[int, Ints]:
        """The counts of the domains of *level* inside *domain*, and the place of the first of them."""
        first, last = self.topology.inside(domain, level)
        return first, self._counts[shape].levels[level][first:last]

    def holds(self, shape: int, domain: Domain) -> int:
        """How many pods of *shape* have room in *domain*, if no other shape is put there."""
        if domain.level >= 0:
            return int(self._counts[shape].levels[domain.level][domain.at])
        return int(self._counts[shape].levels[-1][domain.first : domain.last].sum())

    def fits(self, node: int, demand: Sequence[tuple[int, int]]) -> bool:
        """Whether all of *demand*, (shape, pods), has room on one node together."""
        if not all(self._counts[shape].takes[node] for shape, _ in demand):
            return False
        total: dict[str, int] = {}
        for shape, pods in demand:
            for resource, amount in self.shapes[shape].requests:
                total[resource] = total.get(resource, 0) + amount * pods
        return pods_in(self.free(node), tuple(total.items())) >= 1

    def free(self, node: int) -> dict[str, int]:
        """What is left on a node, not to be changed."""
        found = self._free.get(node)
        if found is None:
            views = [self.topology.nodes[node].free[layer] for layer in self._layers]
            found = self._free[node] = {resource: min(view[resource] for view in views) for resource in views[0]}
            for at, shape, pods in self._put:
                if at == node:
                    self._subtract(found, shape, pods)
        return found

    def _subtract(self, free: dict[str, int], shape: int, pods: int) -> None:
        for resource, amount in self.shapes[shape].requests:
            if resource in free:
                free[resource] -= amount * pods

    def mark(self) -> int:
        """For `back_to`."""
        return len(self._put)

    def put(self, node: int, shape: int, pods: int) -> None:
        self._put.append((node, shape, pods))
        self._take(node, shape, pods)

    def back_to(self, mark: int) -> None:
        """Everything that was put down since is gone."""
        while len(self._put) > mark:
            node, shape, pods = self._put.pop()
            self._take(node, shape, -pods)

    def _take(self, node: int, shape: int, pods: int) -> None:
        if not self._own:
            self._counts = [each.copy() for each in self._counts]
            self._own = True
        if node in self._free:
            self._subtract(self._free[node], shape, pods)
        if len(self.shapes) == 1:  # one shape loses exactly what is put there: no need to look at resources
            self._counts[0].set(self.topology, node, int(self._counts[0].levels[-1][node]) - pods)
            return
        free = self.free(node)
        for counts, each in zip(self._counts, self.shapes, strict=True):
            counts.set(self.topology, node, pods_in(free, each.requests))
