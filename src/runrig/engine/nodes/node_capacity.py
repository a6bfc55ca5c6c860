"""Free resources and GPU indices of one node, and a journal of changed nodes."""

from collections.abc import Mapping

from runrig.domain.nodes import MOST_GPUS, Node
from runrig.domain.quantities import GPU, UNLISTED_IS_UNCOUNTED, Requests

EMPTY = 2
"""A third layer, in addition to the two of usage: the node without any pods."""

NO_BOUND = 1 << 62


class NodeCapacity:
    """A node and its free amounts per layer. *gpus*: free indices, ascending."""

    __slots__ = ("free", "gpus", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free: tuple[dict[str, int], dict[str, int], Mapping[str, int]]
        self.gpus: list[int]
        self._empty()

    def _empty(self) -> None:
        resources = self.node.resources
        self.free = (dict(resources), dict(resources), resources)
        self.gpus = list(range(min(resources.get(GPU, 0), MOST_GPUS)))

    def replace(self, node: Node) -> bool:
        """Sets *node*. Returns True if its resources changed, which resets its usage."""
        before, self.node = self.node, node
        if node.resources == before.resources:
            return False
        self._empty()
        return True

    def pods(self, requests: Requests, layer: int) -> int:
        """How many pods with these requests fit."""
        return pods_in(self.free[layer], requests)

    def hold(self, requests: Requests, count: int, layer: int) -> None:
        """Subtracts the requests of *count* pods from the free amounts; a negative *count* adds them."""
        free = self.free[layer]
        assert isinstance(free, dict), "the EMPTY view is read only"
        for resource, amount in requests:
            if resource in free:
                free[resource] -= amount * count


def pods_in(free: Mapping[str, int], requests: Requests) -> int:
    """How many pods with these requests fit into *free*; NO_BOUND if no requested resource is limited."""
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


class Journal:
    """The names of changed nodes, in order. Each reader remembers its own position."""

    MOST = 1 << 16

    def __init__(self) -> None:
        self._names: list[str] = []
        self._start = 0

    @property
    def end(self) -> int:
        return self._start + len(self._names)

    def note(self, *names: str) -> None:
        if len(self._names) >= self.MOST:
            self._start += len(self._names)
            self._names = []
        self._names.extend(names)

    def since(self, position: int) -> dict[str, None] | None:
        """The distinct names noted since *position*; None if they are no longer kept."""
        if position < self._start:
            return None
        return dict.fromkeys(self._names[position - self._start :])
