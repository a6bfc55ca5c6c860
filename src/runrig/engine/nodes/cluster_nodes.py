"""Room on nodes: what is free of each resource, and which GPUs by index, kept as gangs come and go."""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from runrig.domain.gangs import NodeShare
from runrig.domain.nodes import Flavor, Node
from runrig.domain.quantities import GPU, FlavorResource, Requests
from runrig.engine.nodes.node_capacity import Journal, NodeRoom
from runrig.engine.nodes.topology import Book, Counts, Forest, Ints, Shape

REPELLING = ("NoSchedule", "NoExecute")


class Room:
    """All nodes, by name and as forests of domains."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeRoom] = {}
        self._flavors: Mapping[str, Flavor] = {}
        self._journal = Journal()
        self._books: dict[tuple[str, ...], Book] = {}

    def set_flavors(self, flavors: Mapping[str, Flavor]) -> None:
        self._flavors = flavors
        self._books = {}

    def put(self, node: Node) -> None:
        """Adds *node*, or replaces it, with nothing on it."""
        self.nodes[node.name] = NodeRoom(node)
        self._books = {}

    def drop(self, name: str) -> None:
        del self.nodes[name]
        self._books = {}

    def forest(self, labels: tuple[str, ...]) -> Forest:
        """All nodes by these labels, coarse to fine.  O(nodes log nodes) after a node or a flavor has changed."""
        return self._book(labels).forest

    def counts(self, labels: tuple[str, ...], shape: Shape, layers: tuple[int, ...]) -> Counts:
        """How many pods of *shape* have room in every one of *layers*; to be read at once, and not changed."""
        return self._book(labels).counts(shape, layers, self._journal)

    def free(self, labels: tuple[str, ...], resource: str, layer: int) -> Ints:
        """Per node in topology order, what is free of *resource*; to be read at once, and not changed."""
        return self._book(labels).free(resource, layer, self._journal)

    def _book(self, labels: tuple[str, ...]) -> Book:
        book = self._books.get(labels)
        if book is None:
            forest = Forest(labels, self.nodes.values())
            nodes = [room.node for room in forest.rooms]
            tolerated = np.array([self.tolerated(node) for node in nodes], dtype=np.bool_)
            ready = np.array([node.ready for node in nodes], dtype=np.bool_)
            takes = {}
            for flavor in sorted({node.flavor for node in nodes}):
                registered = tolerated & np.array([node.flavor == flavor for node in nodes], dtype=np.bool_)
                takes[flavor] = (registered & ready, registered)
            book = self._books[labels] = Book(forest, takes)
        return book

    def takes(self, name: str, flavor: str) -> bool:
        """Whether the node is there, of *flavor*, and takes new pods."""
        room = self.nodes.get(name)
        return room is not None and room.node.ready and room.node.flavor == flavor and self.tolerated(room.node)

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
                self._journal.note(share.node)

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
