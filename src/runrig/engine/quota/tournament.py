"""Who is next by share: from one node of the tree down, at each level the child that stands first.

Ours: the child that borrows least, or most, per weight (laws P4 and R3; docs/preemption.md has an example in numbers).
Kueue's fair sharing ranks the children itself (`kueue/head_order.py`).
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Generic, TypeVar

from runrig.engine.quota.quota_node import QuotaLeaf, QuotaNode

FINE = 40
"""Shares are compared in steps of 2**-40: weights of at most 10**6 keep unequal shares at least 10**-12 apart, which is more."""

Rank = TypeVar("Rank")
Key = TypeVar("Key", bound=tuple[object, ...])
"""Place among the items of one leaf and between equal ranks; no two items have the same."""
Item = TypeVar("Item")


class Tournament(Generic[Rank, Key, Item]):
    """Draws the items of *queues*, which are heaps by key, of leaves below *top*.

    *rank* judges a child by itself and by its own next item.  The next item of all lies in the child of *top* with the lowest
    rank, and so on down to the leaf.  Of children with equal ranks, the one goes whose own next item has the smaller key.
    Between two draws, ranks may change only on the path of the item drawn last, and items may be pushed only there.
    O(depth x (rank + log children)) per draw.
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
        for node in sorted(children, key=lambda node: -len(node.path)):  # children first
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
        """*child*, the first of *node*, has given an item."""
        if self._heaps.get(child) or self._queues.get(child):
            heapreplace(self._heaps[node], self._standing(child))
        else:
            heappop(self._heaps[node])

    def _standing(self, child: QuotaNode) -> tuple[Rank, tuple[Key, Item], QuotaNode]:
        head = self._heaps[child][0][1] if child in self._heaps else self._queues[child][0]
        return self._rank(child, head[1]), head, child


def smallest_share(node: QuotaNode, _: object) -> int:
    """Ranks by the GPUs that *node* borrows over its weight.  For trees in which weights differ."""
    return (node.borrowed << FINE) // int(node.weight)


def largest_share(node: QuotaNode, _: object) -> int:
    """As `smallest_share`, the other way round."""
    return -smallest_share(node, _)


def _children(top: QuotaNode, leaves: Mapping[QuotaLeaf, object]) -> dict[QuotaNode, list[QuotaNode]]:
    """Returns, for *top* and every node between it and *leaves*, the children on the way to them.

    A leaf whose parents run in a circle (law Q5) counts as a child of *top*.
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
