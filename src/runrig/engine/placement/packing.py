"""Packing: exact placement of pods of several shapes, node by node (rule T1).

A pod on an earlier node never blocks a later one, so only the maximal mixes of each node are tried, to which no pod can be
added. A failed state (node, remaining pods) is not tried again.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runrig.engine.nodes.node_capacity import pods_in
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.trial_capacity import TrialCapacity

Item = tuple[int, Domain, int]
"""(shape, domain, pods)."""


class Packed(NamedTuple):
    """*placements*: (item, node, pods); None if none was found. *proven* False: the step limit was reached first."""

    placements: tuple[tuple[int, int, int], ...] | None
    proven: bool
    steps: int


def pack(capacity: TrialCapacity, items: Sequence[Item], steps: int) -> Packed:
    """Packs all *items* into the free room of *capacity*. *steps*: step limit; one step tries one mix on one node."""
    return _Packing(capacity, items).run(steps)


Left = tuple[int, ...]
"""Pods per item, in the order of the items: those still to be packed, or a mix for one node."""


class _Packing:
    def __init__(self, capacity: TrialCapacity, items: Sequence[Item]) -> None:
        self._capacity = capacity
        self._items = items
        self._nodes = self._useful_nodes(items)
        self._room_from = self._sum_up_room()

    def _useful_nodes(self, items: Sequence[Item]) -> list[int]:
        """The nodes that can run a pod of some item, in topology order."""
        nodes = sorted({node for _, domain, pods in items if pods for node in range(domain.first, domain.last)})
        return [node for node in nodes if any(self._most(item, node) for item in range(len(items)))]

    def _most(self, item: int, node: int) -> int:
        """How many pods of *item* fit on *node* if it runs no other item."""
        shape, domain, _ = self._items[item]
        return int(self._capacity.counts(shape).levels[-1][node]) if domain.first <= node < domain.last else 0

    def _sum_up_room(self) -> list[list[int]]:
        """Per node, in order: how many pods of each item fit on it and all later nodes."""
        sums = [[0] * len(self._items)]
        for node in reversed(self._nodes):
            sums.append([later + self._most(item, node) for item, later in enumerate(sums[-1])])
        return sums[::-1]

    def run(self, steps: int) -> Packed:
        start = tuple(pods for _, _, pods in self._items)
        if not any(start):
            return Packed((), True, 0)
        stack: list[tuple[Left, Iterator[Left]]] = [(start, self._mixes(0, start))]
        chosen: list[Left] = []
        failed: set[tuple[int, Left]] = set()
        for step in range(steps):
            left, mixes = stack[-1]
            mix = next(mixes, None)
            if mix is None:
                failed.add((len(stack) - 1, left))
                stack.pop()
                if not stack:
                    return Packed(None, True, step)
                chosen.pop()
                continue
            rest = tuple(have - took for have, took in zip(left, mix, strict=True))
            if not any(rest):
                return Packed(self._placements([*chosen, mix]), True, step)
            depth = len(stack)
            if (depth, rest) not in failed and self._may_fit(depth, rest):
                chosen.append(mix)
                stack.append((rest, self._mixes(depth, rest)))
        return Packed(None, False, steps)

    def _may_fit(self, depth: int, left: Left) -> bool:
        """False if the nodes from *depth* on certainly lack room for some item of *left*."""
        if depth >= len(self._nodes):
            return False
        return all(pods <= room for pods, room in zip(left, self._room_from[depth], strict=True))

    def _mixes(self, depth: int, left: Left) -> Iterator[Left]:
        """Yields the maximal mixes for the node at *depth*, those with the most pods of the first items first."""
        if depth >= len(self._nodes) or not self._may_fit(depth, left):
            return
        node = self._nodes[depth]
        fitting = [item for item in range(len(left)) if left[item] and self._most(item, node)]
        free = dict(self._capacity.free(node))
        mix = [0] * len(left)
        yield from self._fill(fitting, free, mix, left)

    def _fill(self, items: Sequence[int], free: dict[str, int], mix: list[int], left: Left) -> Iterator[Left]:
        if not items:
            yield tuple(mix)
            return
        item, others = items[0], items[1:]
        requests = self._capacity.shapes[self._items[item][0]].requests
        most = min(left[item], pods_in(free, requests))
        for count in range(most, -1, -1):
            mix[item] = count
            rest = dict(free)
            for resource, amount in requests:
                if resource in rest:
                    rest[resource] -= amount * count
            for filled in self._fill(others, rest, mix, left):
                # If one more pod of this item still fits with the others, the mix is not maximal.
                if count == most or not self._fits_more(item, filled, free, others):
                    yield filled
        mix[item] = 0

    def _fits_more(self, item: int, mix: Left, free: dict[str, int], others: Sequence[int]) -> bool:
        rest = dict(free)
        for index, count in [(item, mix[item] + 1), *((other, mix[other]) for other in others)]:
            for resource, amount in self._capacity.shapes[self._items[index][0]].requests:
                if resource in rest:
                    rest[resource] -= amount * count
        return all(amount >= 0 for resource, amount in rest.items() if amount < free[resource])

    def _placements(self, chosen: Sequence[Left]) -> tuple[tuple[int, int, int], ...]:
        return tuple(
            (item, node, count)
            for node, mix in zip(self._nodes, chosen, strict=False)
            for item, count in enumerate(mix)
            if count
        )
