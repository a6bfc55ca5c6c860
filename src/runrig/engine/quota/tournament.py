"""Who is next by share: from one node of the tree down, at each level the child that borrows least, or most, per weight.

Laws P4 and R3; docs/preemption.md has an example in numbers.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Generic, TypeVar

from runrig.engine.quota.quota_node import QuotaLeaf, QuotaNode

FINE = 40
"""Shares are compared in steps of 2**-40: weights of at most 10**6 keep unequal shares at least 10**-12 apart, which is more."""

Key = tuple[int, float, str]
"""Place among the items of one leaf and between equal shares; no two items have the same."""


Item = TypeVar("Item")


class Tournament(Generic[Item]):
    """Draws the items of *queues*, which are heaps by key, of leaves below *top*.

    The next item lies in the child of *top* with the smallest share (*largest*: with the largest), and so on down to the leaf.
    Of children with equal shares, the one goes whose own next item has the smaller key.  Between two draws, usage may change
    only on the path of the item drawn last, and items may be pushed only there.  O(depth x log children) per draw.
    """

    def __init__(
        self, top: QuotaNode, queues: Mapping[QuotaLeaf, list[tuple[Key, Item]]], *, largest: bool = False
    ) -> None:
        self._top = top
        self._queues: Mapping[QuotaNode, list[tuple[Key, Item]]] = {leaf: queues[leaf] for leaf in queues}
        self._sign = -1 if largest else 1
        self._heaps: dict[QuotaNode, list[tuple[int, Key, QuotaNode]]] = {}
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

    def _standing(self, child: QuotaNode) -> tuple[int, Key, QuotaNode]:
        key = self._heaps[child][0][1] if child in self._heaps else self._queues[child][0][0]
        return self._sign * borrowed_share(child), key, child


def borrowed_share(node: QuotaNode) -> int:
    """The GPUs that *node* borrows over its weight; to compare.  Of trees in which weights differ."""
    return (node.borrowed << FINE) // int(node.weight)


def _children(top: QuotaNode, leaves: Mapping[QuotaLeaf, object]) -> dict[QuotaNode, list[QuotaNode]]:
    """Of *top* and every node between it and *leaves*, the children on the way to them.

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
