"""Ordering by share: starting at a node, picks the first child at each level.

For pools, that is the child that borrows least, or most, relative to its weight (rules P4 and R3; docs/preemption.md has an
example). Kueue's fair sharing ranks children itself (`kueue/engine/head_order.py`).
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Generic, TypeVar

from runrig.engine.quota.quota_node import QuotaLeaf, QuotaNode

FINE = 40
"""Shares are compared in steps of 2**-40. Weights up to 10**6 keep unequal shares at least 10**-12 apart, which is more."""

Rank = TypeVar("Rank")
Key = TypeVar("Key", bound=tuple[object, ...])
"""The order among the items of a leaf and between equal ranks. Unique."""
Item = TypeVar("Item")


class Tournament(Generic[Rank, Key, Item]):
    """Yields the items of *queues* (heaps by key, per leaf) below *top* in the order of shares.

    *rank* rates a child by itself and by its next item. The next item is in the child of *top* with the lowest rank, and so on
    down to the leaf. If ranks are equal, the child whose next item has the smaller key comes first. Between two items, ranks
    may change only on the path of the last item, and items may be pushed only there. O(depth × (rank + log children)) per item.
    """

    def __init__(
        self,
        top: QuotaNode,
        queues: Mapping[QuotaLeaf, list[tuple[Key, Item]]],
        rank: Callable[[QuotaNode, Item], Rank],
    ) -> None:
        self._top = top
        self._queues: Mapping[QuotaNode, list[tuple[Key, Item]]] = {leaf: queues[leaf] for leaf in queues}
        self._rank = rank
        self._heaps: dict[QuotaNode, list[tuple[Rank, tuple[Key, Item], QuotaNode]]] = {}
        children = _children(top, queues)
        for node in sorted(children, key=lambda node: -len(node.path)):  # process children before their parents
            self._heaps[node] = [self._standing(child) for child in children[node]]
            heapify(self._heaps[node])

    def __iter__(self) -> Iterator[Item]:
        while self._heaps[self._top]:
            path = [self._top]
            while path[-1] in self._heaps:
                path.append(self._heaps[path[-1]][0][2])
            drawn = path.pop()
            yield heappop(self._queues[drawn])[1]
            for node in reversed(path):
                self._refresh(node, drawn)
                drawn = node

    def _refresh(self, node: QuotaNode, child: QuotaNode) -> None:
        """Updates *node* after its first child, *child*, has yielded an item."""
        if self._heaps.get(child) or self._queues.get(child):
            heapreplace(self._heaps[node], self._standing(child))
        else:
            heappop(self._heaps[node])

    def _standing(self, child: QuotaNode) -> tuple[Rank, tuple[Key, Item], QuotaNode]:
        head = self._heaps[child][0][1] if child in self._heaps else self._queues[child][0]
        return self._rank(child, head[1]), head, child


def smallest_share(node: QuotaNode, _: object) -> int:
    """Ranks by the GPUs that *node* borrows, divided by its weight. Only for trees with different weights."""
    return (node.borrowed << FINE) // int(node.weight)


def largest_share(node: QuotaNode, _: object) -> int:
    """Like `smallest_share`, in reverse order."""
    return -smallest_share(node, _)


def _children(top: QuotaNode, leaves: Mapping[QuotaLeaf, object]) -> dict[QuotaNode, list[QuotaNode]]:
    """For *top* and every node between it and *leaves*: the children on the way to them.

    A leaf in a cycle of cohorts (rule Q5) counts as a child of *top*.
    """
    found: dict[QuotaNode, list[QuotaNode]] = {top: []}
    for leaf in leaves:
        child: QuotaNode = leaf
        for parent in leaf.path[1 : leaf.path.index(top) + 1] if top in leaf.path else (top,):
            known = parent in found
            found.setdefault(parent, []).append(child)
            if known:
                break
            child = parent
    return found
