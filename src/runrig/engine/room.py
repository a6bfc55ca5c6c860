"""Room on nodes: what is free of each resource, and which GPUs by index, kept as gangs come and go."""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from runrig.domain.gangs import NodeShare
from runrig.domain.nodes import Flavor, Node
from runrig.domain.quantities import GPU, UNLISTED_IS_UNCOUNTED, FlavorResource, Requests

EMPTY = 2
"""A third view beside the two layers of usage: the node with nothing on it."""

NO_BOUND = 1 << 62
REPELLING = ("NoSchedule", "NoExecute")


class Wanted(NamedTuple):
    """*pods* of one shape on nodes of one flavor."""

    requests: Requests
    flavor: str
    pods: int


class NodeRoom:
    """A node and what is free on it, per layer; *gpus*: indices that nobody holds, ascending."""

    __slots__ = ("free", "gpus", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free: tuple[dict[str, int], dict[str, int], Mapping[str, int]] = (
            dict(node.resources),
            dict(node.resources),
            node.resources,
        )
        self.gpus = list(range(node.resources.get(GPU, 0)))

    def pods(self, requests: Requests, layer: int) -> int:
        """How many pods of this shape have room."""
        return pods_in(self.free[layer], requests)

    def hold(self, requests: Requests, count: int, layer: int) -> None:
        """Takes *count* pods' worth out of what is free; a negative *count* gives it back."""
        free = self.free[layer]
        assert isinstance(free, dict), "the EMPTY view is read only"
        for resource, amount in requests:
            if resource in free:
                free[resource] -= amount * count


def pods_in(free: Mapping[str, int], requests: Requests) -> int:
    """How many pods of this shape fit into *free*; NO_BOUND if they ask nothing that is counted there."""
    most = NO_BOUND
    for resource, amount in requests:
        left = free.get(resource)
        if left is None:
            if resource in UNLISTED_IS_UNCOUNTED:
                continue
            return 0
        if left < amount:
            return 0
        most = min(most, left // amount)
    return most


class Room:
    """All nodes.  *usable* lists those of a flavor that take new pods, by name."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeRoom] = {}
        self._usable: dict[str, list[NodeRoom]] | None = None
        self._flavors: Mapping[str, Flavor] = {}

    def set_flavors(self, flavors: Mapping[str, Flavor]) -> None:
        self._flavors = flavors
        self._usable = None

    def put(self, node: Node) -> None:
        """Adds *node*, or replaces it, with nothing on it."""
        self.nodes[node.name] = NodeRoom(node)
        self._usable = None

    def drop(self, name: str) -> None:
        del self.nodes[name]
        self._usable = None

    def usable(self, flavor: str) -> list[NodeRoom]:
        """Ready nodes of *flavor* without a taint that the flavor does not name, by name."""
        if self._usable is None:
            self._usable = {}
            for _, room in sorted(self.nodes.items()):
                if room.node.ready and self.tolerated(room.node):
                    self._usable.setdefault(room.node.flavor, []).append(room)
        return self._usable.get(flavor, [])

    def takes(self, name: str, flavor: str) -> bool:
        """Whether the node is there, of *flavor*, and takes new pods."""
        room = self.nodes.get(name)
        return room is not None and room.node.ready and room.node.flavor == flavor and self.tolerated(room.node)

    def registered(self, flavor: str) -> list[NodeRoom]:
        """Nodes of *flavor* whether they are up or not, by name (law P3: what a repaired cluster could hold)."""
        return [
            room for _, room in sorted(self.nodes.items()) if room.node.flavor == flavor and self.tolerated(room.node)
        ]

    def tolerated(self, node: Node) -> bool:
        flavor = self._flavors.get(node.flavor)
        named = flavor.taints if flavor else ()
        return all(taint in named for taint in node.taints if taint.effect in REPELLING)

    def capacity(self, resources: Iterable[str]) -> dict[FlavorResource, int]:
        """Per flavor and resource, over all registered nodes, ready or not (law Q8)."""
        wanted = set(resources)
        total: dict[FlavorResource, int] = {}
        for room in self.nodes.values():
            for resource, amount in room.node.resources.items():
                if resource in wanted:
                    key = FlavorResource(room.node.flavor, resource)
                    total[key] = total.get(key, 0) + amount
        return total

    def hold(self, shares: Iterable[NodeShare], requests: Requests, layer: int, *, give_back: bool = False) -> None:
        """The pods of *shares* take their room in *layer*, or give it back.  A node that is gone is passed over."""
        sign = -1 if give_back else 1
        for share in shares:
            room = self.nodes.get(share.node)
            if room is not None:
                room.hold(requests, sign * share.count, layer)

    def take_gpus(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            if share.gpus and share.node in self.nodes:
                taken = set(share.gpus)
                room = self.nodes[share.node]
                room.gpus = [index for index in room.gpus if index not in taken]

    def return_gpus(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            if share.node in self.nodes:
                room = self.nodes[share.node]
                for index in share.gpus:
                    if index < room.node.resources.get(GPU, 0) and index not in room.gpus:
                        insort(room.gpus, index)

    def with_gpus(self, shares: Iterable[NodeShare], requests: Requests, spoken: dict[str, int]) -> Iterator[NodeShare]:
        """*shares* with the lowest free indices filled in; *spoken*: per node, how many are already promised in this placement."""
        each = dict(requests).get(GPU, 0)
        for share in shares:
            first = spoken.get(share.node, 0)
            last = first + each * share.count
            spoken[share.node] = last
            yield NodeShare(share.node, share.count, tuple(self.nodes[share.node].gpus[first:last]))
