"""Free resources and GPU indices of all nodes, updated as gangs come and go."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from runrig.domain.gangs import NodeShare
from runrig.domain.nodes import NO_FLAVOR, REPELLING_EFFECTS, Flavor, Node
from runrig.domain.quantities import GPU, FlavorResource, Requests
from runrig.domain.steps import Steps
from runrig.engine.nodes.fit_counts import FitCountCache, FitCounts, PodShape
from runrig.engine.nodes.gpu_counts import GpuCounts, GpusByState
from runrig.engine.nodes.node_capacity import Journal, NodeCapacity
from runrig.engine.nodes.topology import Ints, TopologyIndex, path_of


class ClusterNodes:
    """All nodes, by name and in topology order.

    *capacity*: (flavor, resource) → amount, over all nodes that match a flavor, ready or not (rule Q8).
    *indexed*: counts the nodes sorted into topology order, for cost tests.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, NodeCapacity] = {}
        self.capacity: dict[FlavorResource, int] = {}
        self._listing: Counter[FlavorResource] = Counter()  # how many nodes list each resource
        self._flavors: Mapping[str, Flavor] = {}
        self._journal = Journal()
        self._caches: dict[tuple[str, ...], FitCountCache] = {}
        self._gpus: dict[int, GpuCounts] = {}
        self.indexed = 0

    def set_flavors(self, flavors: Mapping[str, Flavor]) -> None:
        self._flavors = flavors
        self._caches = {}

    def put(self, node: Node) -> bool:
        """Adds or replaces *node*.

        Returns True if its usage was reset, so that the caller has to record again what gangs use there.
        O(cached shapes and flavors), unless its position in a topology changes or it is the first of its flavor.
        """
        room = self.by_name.get(node.name)
        if room is None:
            self.by_name[node.name] = NodeCapacity(node)
            self._caches = {}
        else:
            self._count(room.node, -1)
            self._caches = {
                labels: cache
                for labels, cache in self._caches.items()
                if path_of(node, labels) == path_of(room.node, labels)
                and cache.takes.keys() >= {node.flavor} - {NO_FLAVOR}
            }
        self._count(node, 1)
        emptied = room is None or room.replace(node)
        for cache in self._caches.values():
            at = cache.topology.index[node.name]
            for flavor, (usable, registered) in cache.takes.items():
                registered[at] = node.flavor == flavor and self.tolerated(node)
                usable[at] = registered[at] and node.open
        self._journal.note(node.name)
        return emptied

    def drop(self, name: str) -> Node:
        node = self.by_name.pop(name).node
        self._count(node, -1)
        self._caches = {}
        self._journal.note(name)
        return node

    def _count(self, node: Node, sign: int) -> None:
        if node.flavor == NO_FLAVOR:
            return
        for resource, amount in node.resources.items():
            key = FlavorResource(node.flavor, resource)
            self._listing[key] += sign
            self.capacity[key] = self.capacity.get(key, 0) + sign * amount
            if not self._listing[key]:
                del self._listing[key], self.capacity[key]

    def gpus(self, layer: int) -> Mapping[str, GpusByState]:
        """Flavor → its GPUs; "" for nodes that match no flavor. Flavors without nodes may remain with zeros.

        O(nodes changed since the last call for *layer*).
        """
        return self._gpus.setdefault(layer, GpuCounts(layer)).read(self.by_name, self._journal)

    def topology(self, labels: tuple[str, ...]) -> TopologyIndex:
        """All nodes by these labels, coarse to fine. O(nodes log nodes) after a node was added, removed or moved in it."""
        return self._cache(labels).topology

    def counts(self, labels: tuple[str, ...], shape: PodShape, layers: tuple[int, ...]) -> FitCounts:
        """How many pods of *shape* fit in every one of *layers*. Valid until the next change; read-only."""
        return self._cache(labels).counts(shape, layers, self._journal)

    def counts_in_steps(self, labels: tuple[str, ...], shape: PodShape, layers: tuple[int, ...]) -> Steps[None]:
        """Prepares the next call of `counts` in short steps."""
        yield from self._cache(labels).counts_in_steps(shape, layers, self._journal)

    def free(self, labels: tuple[str, ...], resource: str, layer: int) -> Ints:
        """Free amounts of *resource* per node, in topology order. Valid until the next change; read-only."""
        return self._cache(labels).free(resource, layer, self._journal)

    def _cache(self, labels: tuple[str, ...]) -> FitCountCache:
        cache = self._caches.get(labels)
        if cache is None:
            topology = TopologyIndex(labels, self.by_name.values())
            self.indexed += len(topology.nodes)
            nodes = [room.node for room in topology.nodes]
            tolerated = np.array([self.tolerated(node) for node in nodes], dtype=np.bool_)
            opened = np.array([node.open for node in nodes], dtype=np.bool_)
            takes = {}
            for flavor in sorted({node.flavor for node in nodes}):
                registered = tolerated & np.array([node.flavor == flavor for node in nodes], dtype=np.bool_)
                takes[flavor] = (registered & opened, registered)
            cache = self._caches[labels] = FitCountCache(topology, takes)
        return cache

    def takes(self, name: str, flavor: str) -> bool:
        """Whether the node exists, has *flavor*, and accepts new pods."""
        room = self.by_name.get(name)
        return room is not None and room.node.open and room.node.flavor == flavor and self.tolerated(room.node)

    def closed(self, labels: tuple[str, ...]) -> list[NodeCapacity]:
        """The nodes that accept no new pods, in the order of the topology by *labels*. O(such nodes) in Python."""
        cache = self._cache(labels)
        takes = np.zeros(len(cache.topology.nodes), dtype=np.bool_)
        for usable, _ in cache.takes.values():
            takes |= usable
        return [cache.topology.nodes[at] for at in np.flatnonzero(~takes).tolist()]

    def tolerated(self, node: Node) -> bool:
        flavor = self._flavors.get(node.flavor)
        named = flavor.taints if flavor else ()
        return all(taint in named for taint in node.taints if taint.effect in REPELLING_EFFECTS)

    def hold(self, shares: Iterable[NodeShare], requests: Requests, layer: int, *, give_back: bool = False) -> None:
        """Subtracts the pods of *shares* from the free resources in *layer*, or adds them if *give_back*. Skips removed nodes."""
        sign, room_of = -1 if give_back else 1, self.by_name.get
        noted: list[str] = []
        for share in shares:
            room = room_of(share.node)
            if room is not None:
                room.hold(requests, sign * share.count, layer)
                noted.append(share.node)
        self._journal.note(*noted)

    def take_gpus(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            if share.gpus and share.node in self.by_name:
                taken = set(share.gpus)
                room = self.by_name[share.node]
                room.gpus = [index for index in room.gpus if index not in taken]

    def return_gpus(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            if share.gpus and share.node in self.by_name:
                room = self.by_name[share.node]
                room.gpus = sorted({*room.gpus, *share.gpus} if room.gpus else share.gpus)
                has = room.node.resources.get(GPU, 0)
                if room.gpus[-1] >= has:
                    del room.gpus[bisect_left(room.gpus, has) :]

    def with_gpus(
        self, shares: Iterable[NodeShare], requests: Requests, reserved: dict[str, int]
    ) -> Iterator[NodeShare]:
        """Yields *shares* with the lowest free GPU indices.

        *reserved*: node → number of GPUs already assigned in this placement; updated.
        """
        per_pod = dict(requests).get(GPU, 0)
        for share in shares:
            first = reserved.get(share.node, 0)
            last = first + per_pod * share.count
            reserved[share.node] = last
            yield NodeShare(share.node, share.count, tuple(self.by_name[share.node].gpus[first:last]))
