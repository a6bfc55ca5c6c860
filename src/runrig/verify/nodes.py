"""Room that nodes have left for new pods, and barriers that stop work."""

from collections.abc import Mapping, Sequence
from typing import Any

from .gang import Queue
from .quota import NO_LIMIT

MOST_PODS, MOST_MOVES, GONE = 1 << 30, 500_000, -1
NEVER = NO_LIMIT + 1
"""More than any barrier lets through."""
UNLIMITED_IF_UNLISTED = ("cpu", "memory", "storage", "pods")


class Rooms:
    """Room that is left in all layers on *nodes* that take pods. *takes*: of `World`. *used*: per layer; below zero. *stale*: nodes
    that changed since the last look.

    *kinds*: (flavor, what is left of each resource that a node lists), and once more with another node that has the same. *moves*:
    (node, number of its kind before, and since then); 0: it takes no pods. GONE: it is gone, or may have other labels now. From time
    to time they begin anew, in another list.
    """

    def __init__(
        self, nodes: Mapping[str, Any], takes: Mapping[str, str], used: Sequence[Mapping[str, Mapping[str, int]]]
    ) -> None:
        self.nodes, self._takes, self._used = nodes, takes, used
        self._begin()

    def _begin(self) -> None:
        self.moves: list[tuple[str, int, int]] = []
        self.kinds: list[tuple[str, dict[str, int]]] = [("", {})]
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._now: dict[str, tuple[int, Any, tuple[Any, ...]]] = {}
        self.stale = {*self.nodes}

    def of(self, name: str) -> dict[str, int]:
        """*name*: of a node that takes pods."""
        if self.stale:
            self.look()
        return self.kinds[self._now[name][0]][1]

    def look(self) -> None:
        """Takes the stale nodes into account."""
        if len(self.moves) > MOST_MOVES:
            self._begin()
        for name in self.stale:
            node = self.nodes.get(name)
            before, same, size = self._now.get(name, (0, None, ()))
            if node is not same:
                self.moves.append((name, before, GONE))
                before, size = 0, () if node is None else (*node["resources"].items(),)
            number = self._number(name, size) if node is not None and name in self._takes else 0
            if number != before or node is not same:
                self.moves.append((name, before, number))
                self._now[name] = number, node, size
        self.stale.clear()

    def _number(self, name: str, size: tuple[Any, ...]) -> int:
        """*size*: resources and how much of them the node has."""
        used, other = self._used[0].get(name, {}), self._used[-1].get(name, {})
        if used != other:
            used = {resource: min(used.get(resource, 0), other.get(resource, 0)) for resource in {*used, *other}}
        flavor = self._takes[name]
        key = flavor, size, *used.items()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.kinds)
            self.kinds.append((flavor, {resource: amount + used.get(resource, 0) for resource, amount in size}))
        return number


def fits(room: Mapping[str, int], need: Mapping[str, int]) -> int:
    """How many pods fit."""
    most = MOST_PODS
    for resource, amount in need.items():
        there = room.get(resource)
        if there is not None:
            several = there // amount
            most = several if several < most else most  # Faster than min().
        elif resource not in UNLIMITED_IF_UNLISTED:
            return 0
    return max(0, most)


class Barrier:
    """*asleep*: for LOW and others: need → queues that need as much here and could not start. *least*: of these needs."""

    firm = False

    def __init__(self) -> None:
        self.asleep: tuple[dict[int, dict[Queue, None]], dict[int, dict[Queue, None]]] = ({}, {})
        self.least = NEVER

    def put(self, queue: Queue, need: int) -> None:
        self.asleep[queue.firm].setdefault(need, {})[queue] = None
        self.least = min(self.least, need)

    def take(self, queue: Queue, need: int) -> None:
        asleep = self.asleep[queue.firm]
        del asleep[need][queue]
        if not asleep[need]:
            del asleep[need]
            self.least = min([*self.asleep[False], *self.asleep[True]], default=NEVER)

    def most(self) -> int:
        """How much it lets through now. Of this one only a search tells."""
        return NO_LIMIT


class Column(Barrier):
    """How many pods of one shape fit into the domain that has most room.

    *labels*: all that a node needs; the first *depth* of them name its domain. 0: all nodes are one domain.
    """

    def __init__(self, rooms: Rooms, flavor: str, need: dict[str, int], labels: Sequence[str], depth: int) -> None:
        super().__init__()
        self._rooms, self._flavor, self._need = rooms, flavor, need
        self._labels, self._depth = labels, depth
        self._moves: list[tuple[str, int, int]] = []
        self._domains: dict[str, Any] = {}
        self._totals: dict[Any, int] = {}
        self._counts: list[int] = []
        self._seen = self._most = 0

    def most(self) -> int:
        rooms = self._rooms
        if rooms.stale:
            rooms.look()
        if self._moves is not rooms.moves:
            self._moves, self._domains, self._totals, self._counts = rooms.moves, {}, {}, []
            self._seen = self._most = 0
        if self._seen != len(self._moves):
            self._recount()
        return self._most

    def _recount(self) -> None:
        kinds, counts, totals, domains = self._rooms.kinds, self._counts, self._totals, self._domains
        for flavor, room in kinds[len(counts) :]:
            counts.append(fits(room, self._need) if flavor == self._flavor else 0)
        for name, before, now in self._moves[self._seen :]:
            if now == GONE:
                domain, change = domains.pop(name, None), -counts[before]
            elif change := counts[now] - counts[before]:
                if name not in domains:
                    domains[name] = self._domain(self._rooms.nodes.get(name))
                domain = domains[name]
            if change and domain is not None:
                totals[domain] = totals.get(domain, 0) + change
        self._seen = len(self._moves)
        self._most = max(totals.values(), default=0)

    def _domain(self, node: Mapping[str, Any] | None) -> tuple[str, ...] | None:
        """None: it lacks a label."""
        labels = {} if node is None else node["labels"]
        there = node is not None and all(each in labels for each in self._labels)
        return tuple(labels[each] for each in self._labels[: self._depth]) if there else None
