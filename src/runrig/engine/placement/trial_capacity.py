"""Free capacity while one gang is placed: fit counts of its shapes, less the pods that the search has placed so far.

Pods can be removed in reverse order. The nodes themselves never change.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.fit_counts import FitCounts, PodShape
from runrig.engine.nodes.node_capacity import pods_in
from runrig.engine.nodes.topology import Domain, Ints


class PlacedPods(NamedTuple):
    """Pods of *shape* inside *domain*: how many on each of *nodes*, which are distinct."""

    domain: Domain
    shape: int
    nodes: list[int]
    pods: list[int]


class TrialCapacity:
    """*shapes*: the pod shapes of the gang. Methods refer to a shape by its index in this list."""

    def __init__(
        self, nodes: ClusterNodes, labels: tuple[str, ...], shapes: Sequence[PodShape], layers: Sequence[int]
    ) -> None:
        self.topology = nodes.topology(labels)
        self._nodes, self._labels = nodes, labels
        self.shapes = shapes
        self._layers = tuple(layers)
        self._counts = [
            nodes.counts(labels, shape, self._layers)
            if shape.only_on is None
            else FitCounts.only_on(self.topology, shape.only_on)
            for shape in shapes
        ]
        self._own = False
        self._free: dict[int, dict[str, int]] = {}
        self._placed: list[PlacedPods] = []
        self._more: tuple[Ints, Mapping[str, Ints]] | None = None

    def with_more(self, nodes: Ints, amounts: Mapping[str, Ints], fitting: Sequence[Ints]) -> "TrialCapacity":
        """A copy in which *nodes*, which are distinct, have *amounts* more of each resource.

        *fitting*: how many pods then fit there, per shape.
        """
        other = copy(self)
        other._own, other._more = True, (nodes, amounts)
        other._counts = [counts.copy() for counts in self._counts]
        other._free, other._placed = {}, []
        for counts, pods in zip(other._counts, fitting, strict=True):
            counts.set_all(self.topology, nodes, pods)
        return other

    def counts(self, shape: int) -> FitCounts:
        return self._counts[shape]

    def column(self, resource: str) -> Ints:
        """Free amount of *resource* per node before this search placed any pods, without additions of `with_more`."""
        return self._nodes.free(self._labels, resource, self._layers[0])

    def level(self, shape: int, domain: Domain, level: int) -> tuple[int, Ints]:
        """(index of the first domain of *level* inside *domain*, pods that fit in each of these domains)."""
        first, last = self.topology.inside(domain, level)
        return first, self._counts[shape].levels[level][first:last]

    def holds(self, shape: int, domain: Domain) -> int:
        """How many pods of *shape* fit in *domain* if no other shape is placed there."""
        if domain.level >= 0:
            return int(self._counts[shape].levels[domain.level][domain.at])
        return int(self._counts[shape].levels[-1][domain.first : domain.last].sum())

    def fits(self, node: int, demand: Sequence[tuple[int, int]]) -> bool:
        """Whether all of *demand*, (shape, pods), fits together on one node."""
        if not all(self._counts[shape].takes[node] for shape, _ in demand):
            return False
        return pods_in(self.free(node), tuple(self.asked(demand).items())) >= 1

    def asked(self, demand: Iterable[tuple[int, int]]) -> dict[str, int]:
        """Resource → total request of *demand*, (shape, pods)."""
        total: dict[str, int] = {}
        for shape, pods in demand:
            for resource, amount in self.shapes[shape].requests:
                total[resource] = total.get(resource, 0) + amount * pods
        return total

    def free(self, node: int) -> dict[str, int]:
        """Resource → amount left on *node*. Read-only."""
        free = self._free.get(node)
        if free is None:
            views = [self.topology.nodes[node].free[layer] for layer in self._layers]
            free = self._free[node] = {resource: min(view[resource] for view in views) for resource in views[0]}
            self._add_more(free, node)
            for _, shape, nodes, pods in self._placed:
                if node in nodes:
                    self._subtract(free, shape, pods[nodes.index(node)])
        return free

    def _add_more(self, free: dict[str, int], node: int) -> None:
        if self._more is not None:
            nodes, amounts = self._more
            for at in np.flatnonzero(nodes == node).tolist():
                for resource in free.keys() & amounts.keys():
                    free[resource] += int(amounts[resource][at])

    def _subtract(self, free: dict[str, int], shape: int, pods: int) -> None:
        for resource, amount in self.shapes[shape].requests:
            if resource in free:
                free[resource] -= amount * pods

    def put(self, put: PlacedPods) -> None:
        self._placed.append(put)
        self._take(put, 1)

    def take_back(self, put: PlacedPods) -> None:
        """The inverse of `put`, in reverse order."""
        assert self._placed.pop() is put, "pods are removed in reverse order"
        self._take(put, -1)

    def _take(self, put: PlacedPods, sign: int) -> None:
        if not self._own:
            self._counts = [counts.copy() for counts in self._counts]
            self._own = True
        for node, pods in zip(put.nodes, put.pods, strict=True) if self._free else ():
            if node in self._free:
                self._subtract(self._free[node], put.shape, sign * pods)
        if len(self.shapes) == 1:  # a single shape loses exactly the pods placed, whatever they request
            self._lose(put, sign)
            return
        for node in put.nodes:
            free = self.free(node)
            for counts, pod_shape in zip(self._counts, self.shapes, strict=True):
                counts.set(self.topology, node, pods_in(free, pod_shape.requests))

    def _lose(self, put: PlacedPods, sign: int) -> None:
        """Reduces the counts by the pods placed."""
        nodes, pods = np.array(put.nodes), sign * np.array(put.pods)
        total = sign * sum(put.pods)
        for level, (counts, of) in enumerate(zip(self._counts[0].levels, self.topology.of, strict=True)):
            if level <= put.domain.level:
                counts[of[put.domain.first]] -= total
            elif level >= self.topology.single_level:
                counts[nodes] -= pods
            else:
                np.subtract.at(counts, of[nodes], pods)
