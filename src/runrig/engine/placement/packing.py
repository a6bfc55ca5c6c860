"""Packing unlike pods onto nodes, exactly: node by node, and on each only what cannot be made more (law T1).

A pod that goes onto an earlier node is never in the way of a later one, so of all mixes for a node only those count to which
nothing can be added.  What failed once with the same nodes and the same pods left is not tried again.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runrig.engine.nodes.node_capacity import pods_in
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.trial_capacity import TrialCapacity

Item = tuple[int, Domain, int]
"""(shape, where, pods)."""


class Packed(NamedTuple):
    """*puts*: (item, node, pods), None if there is no place.  *proven* False: the steps were used up first."""

    puts: tuple[tuple[int, int, int], ...] | None
    proven: bool
    steps: int


def pack(capacity: TrialCapacity, items: Sequence[Item], steps: int) -> Packed:
    """All *items* beside what is in *capacity* already, in at most *steps* steps of one mix on one node each."""
    return _Packing(capacity, items).run(steps)


Left = tuple[int, ...]


class _Packing:
    def __init__(self, capacity: TrialCapacity, items: Sequence[Item]) -> None:
        self._capacity = capacity
        self._items = items
        self._nodes = self._worth(items)
        self._after = self._room_after()

    def _worth(self, items: Sequence[Item]) -> list[int]:
        nodes = sorted({node for _, domain, pods in items if pods for node in range(domain.first, domain.last)})
        return [node for node in nodes if any(self._most(at, node) for at in range(len(items)))]

    def _most(self, item: int, node: int) -> int:
        """Pods of *item* on *node* if it has the node for itself."""
        shape, domain, _ = self._items[item]
        return int(self._capacity.counts(shape).levels[-1][node]) if domain.first <= node < domain.last else 0

    def _room_after(self) -> list[list[int]]:
        """Per node in order, how many pods of each item have room there and on all later nodes."""
        sums = [[0] * len(self._items)]
        for node in reversed(self._nodes):
            sums.append([after + self._most(at, node) for at, after in enumerate(sums[-1])])
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
                return Packed(self._puts([*chosen, mix]), True, step)
            at = len(stack)
            if (at, rest) not in failed and self._may(at, rest):
                chosen.append(mix)
                stack.append((rest, self._mixes(at, rest)))
        return Packed(None, False, steps)

    def _may(self, at: int, left: Left) -> bool:
        return at < len(self._nodes) and all(have <= room for have, room in zip(left, self._after[at], strict=True))

    def _mixes(self, at: int, left: Left) -> Iterator[Left]:
        """What can go onto the node at place *at* and leaves nothing that could go there too; the fullest of the first items first."""
        if at >= len(self._nodes) or not self._may(at, left):
            return
        node = self._nodes[at]
        mine = [item for item in range(len(left)) if left[item] and self._most(item, node)]
        free = dict(self._capacity.free(node))
        mix = [0] * len(left)
        yield from self._fill(mine, free, mix, left)

    def _fill(self, mine: Sequence[int], free: dict[str, int], mix: list[int], left: Left) -> Iterator[Left]:
        if not mine:
            yield tuple(mix)
            return
        item, others = mine[0], mine[1:]
        requests = self._capacity.shapes[self._items[item][0]].requests
        most = min(left[item], pods_in(free, requests))
        for count in range(most, -1, -1):
            mix[item] = count
            rest = dict(free)
            for resource, amount in requests:
                if resource in rest:
                    rest[resource] -= amount * count
            for found in self._fill(others, rest, mix, left):
                # One more of this item would still fit beside the others: that mix has been tried.
                if count == most or not self._fits_more(item, found, free, others):
                    yield found
        mix[item] = 0

    def _fits_more(self, item: int, found: Left, free: dict[str, int], others: Sequence[int]) -> bool:
        total = dict(free)
        for each, count in [(item, found[item] + 1), *((other, found[other]) for other in others)]:
            for resource, amount in self._capacity.shapes[self._items[each][0]].requests:
                if resource in total:
                    total[resource] -= amount * count
        return all(amount >= 0 for resource, amount in total.items() if amount < free[resource])

    def _puts(self, chosen: Sequence[Left]) -> tuple[tuple[int, int, int], ...]:
        return tuple(
            (item, self._nodes[at], count) for at, mix in enumerate(chosen) for item, count in enumerate(mix) if count
        )
