"""Barriers that stop work: quota, or room on nodes. Each is asked again only after a change."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from .gang import Queue
from .nodes import GONE, Rooms, fits
from .quota import NO_LIMIT
from .world import World


class Barrier:
    """*asleep*: for LOW and others: need → queues that need as much here and could not start."""

    firm = False

    def __init__(self) -> None:
        self.asleep: tuple[dict[int, dict[Queue, None]], dict[int, dict[Queue, None]]] = ({}, {})

    def most(self) -> int:
        """How much it lets through now. Of this one only a search tells."""
        return NO_LIMIT

    def lets_through(self) -> bool:
        """Whether it lets any of them through now."""
        low, firm = self.asleep
        return bool(low or firm) and min(chain(low, firm)) <= self.most()


class Quota(Barrier):
    """*ask*: asks the tree of *world*. *firm*: by P2."""

    def __init__(self, world: World, ask: Callable[[], int], *, firm: bool) -> None:
        super().__init__()
        self._world, self._ask, self.firm = world, ask, firm
        self._at, self._most = -1, 0

    def most(self) -> int:
        if self._at != self._world.changes:
            self._at, self._most = self._world.changes, self._ask()
        return self._most


class Column(Barrier):
    """How many pods of one shape fit into the domain that has most room.

    *labels*: all that a node needs; the first *depth* of them name its domain. 0: all nodes are one domain.
    """

    def __init__(
        self, rooms: Rooms, flavor: str, need: dict[str, int], labels: Sequence[str] = (), depth: int = 0
    ) -> None:
        super().__init__()
        self._rooms, self._flavor, self._need = rooms, flavor, need
        self._labels, self._depth = labels, depth
        self._domains: dict[str, Any] = {}
        self._totals: dict[Any, int] = {}
        self._counts: list[int] = []
        self._seen = self._most = 0

    def most(self) -> int:
        rooms = self._rooms
        if rooms.seen != len(rooms.touched):
            rooms.look()
        if self._seen != len(rooms.moves):
            self._recount()
        return self._most

    def _recount(self) -> None:
        moves, kinds, counts, totals = self._rooms.moves, self._rooms.kinds, self._counts, self._totals
        for flavor, room in kinds[len(counts) :]:
            counts.append(fits(room, self._need) if flavor == self._flavor else 0)
        domains = self._domains
        for name, before, now in moves[self._seen :]:
            if now == GONE:
                domain, change = domains.pop(name, None), -counts[before]
            elif change := counts[now] - counts[before]:
                if name not in domains:
                    domains[name] = self._domain(self._rooms.nodes.get(name))
                domain = domains[name]
            if change and domain is not None:
                totals[domain] = totals.get(domain, 0) + change
        self._seen = len(moves)
        self._most = max(totals.values(), default=0)

    def _domain(self, node: Mapping[str, Any] | None) -> tuple[str, ...] | None:
        """None: it lacks a label."""
        labels = {} if node is None else node["labels"]
        there = node is not None and all(each in labels for each in self._labels)
        return tuple(labels[each] for each in self._labels[: self._depth]) if there else None
