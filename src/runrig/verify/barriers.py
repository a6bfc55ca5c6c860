"""Barriers that stop work: quota, or room on nodes. Each is asked again only after a change."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .gang import Queue
from .places import fits, room_in
from .quota import LAYERS, NO_LIMIT
from .world import World

NOWHERE: tuple[int, Any, Any] = (0, None, None)
"""Count, domain and node where nothing was."""


class Barrier:
    """*asleep*: need → queues that need as much here and could not start."""

    firm = False

    def __init__(self) -> None:
        self.asleep: dict[int, dict[Queue, None]] = {}

    def most(self) -> int:
        """How much it lets through now. Of this one only a search tells."""
        return NO_LIMIT


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
    """How many pods of one shape fit into the domain that has most room; only nodes that changed are counted again.

    *labels*: all that a node needs; the first *depth* of them name its domain. 0: all nodes are one domain.
    """

    def __init__(
        self,
        world: World,
        flavor: str,
        need: dict[str, int],
        labels: Sequence[str] = (),
        depth: int = 0,
        layers: tuple[int, ...] = LAYERS,
    ) -> None:
        super().__init__()
        self._world, self._flavor, self._need, self._layers = world, flavor, need, layers
        self._labels, self._depth = labels, depth
        self._of: dict[str, tuple[int, Any, Any]] = {}
        self._totals: dict[Any, int] = {}
        self._most = 0
        self._recount(world.nodes)
        self._seen = len(world.touched)

    def most(self) -> int:
        touched = self._world.touched
        if self._seen < len(touched):
            self._recount({*touched[self._seen :]})
            self._seen = len(touched)
        return self._most

    def _recount(self, names: Iterable[str]) -> None:
        world, rooms = self._world, self._world.rooms[self._layers]
        for name in names:
            node, count = world.nodes.get(name), 0
            before, domain, same = self._of.get(name, NOWHERE)
            if node is not same:
                self._totals[domain] = self._totals.get(domain, 0) - before
                before, domain = 0, self._domain(node)
            if domain is not None and world.takes.get(name) == self._flavor:
                count = fits(rooms.get(name) or room_in(world, name, self._layers), self._need)
            if count != before or node is not same:
                self._of[name] = count, domain, node
                self._totals[domain] = self._totals.get(domain, 0) + count - before
        self._most = max(self._totals.values(), default=0)

    def _domain(self, node: Mapping[str, Any] | None) -> tuple[str, ...] | None:
        """None: it lacks a label."""
        labels = {} if node is None else node["labels"]
        there = node is not None and all(each in labels for each in self._labels)
        return tuple(labels[each] for each in self._labels[: self._depth]) if there else None
