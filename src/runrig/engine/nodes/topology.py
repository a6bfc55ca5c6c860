"""Domains: the nodes in the order of a topology, and how many pods of a shape fit into each domain (laws T1, T5).

A domain of a level is a range of nodes in that order; nodes themselves are the level below the finest key.  Counts are kept:
what changes on a node is added to the domains around it, O(levels) per node, and never counted anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED, Requests
from runrig.engine.nodes.node_capacity import EMPTY, Journal, NodeCapacity

Ints = NDArray[np.int64]

MOST_PER_NODE = 1 << 40
"""What a node is taken to hold of pods that ask nothing which is counted: sums over all nodes stay in 64 bits."""

UNLISTED = -(1 << 62)

ROOT = -1
"""The level of the one domain that has all others inside."""


class Domain(NamedTuple):
    """*at*: its place among the domains of its level; the nodes *first* to *last*, the latter not included, in topology order."""

    level: int
    at: int
    first: int
    last: int


class TopologyIndex:
    """All nodes in topology order: sorted by their labels, level by level, then by name.

    A node that lacks a label stands at the end and is a domain by itself at every level: nothing with a requirement goes there
    (law T1).  *labelled*: how many have all labels.  *of*: per level, the domain of each node; the last level is the nodes.
    """

    def __init__(self, labels: Sequence[str], rooms: Iterable[NodeCapacity]) -> None:
        placed, apart = [], []
        for room in rooms:
            path = path_of(room.node, labels)
            if path is None:
                apart.append((room.node.name, room))
            else:
                placed.append((path, room.node.name, room))
        placed.sort(key=lambda each: each[:2])
        apart.sort(key=lambda each: each[0])
        self.labels = tuple(labels)
        self.labelled = len(placed)
        self.nodes = [room for _, _, room in placed] + [room for _, room in apart]
        self.index = {room.node.name: at for at, room in enumerate(self.nodes)}
        self.paths = [path for path, _, _ in placed]
        self.of: list[Ints] = []
        self.starts: list[Ints] = []
        for depth in range(1, len(labels) + 1):
            self._add_level([path[:depth] for path in self.paths])
        count = len(self.nodes)
        self.of.append(np.arange(count, dtype=np.int64))
        self.starts.append(np.arange(count + 1, dtype=np.int64))

    def _add_level(self, prefixes: Sequence[tuple[str, ...]]) -> None:
        of, starts = [], []
        for at in range(len(self.nodes)):
            if at == 0 or at >= self.labelled or prefixes[at] != prefixes[at - 1]:
                starts.append(at)
            of.append(len(starts) - 1)
        self.of.append(np.array(of, dtype=np.int64))
        self.starts.append(np.array([*starts, len(self.nodes)], dtype=np.int64))

    @property
    def node_level(self) -> int:
        """The level of the nodes."""
        return len(self.labels)

    @property
    def finest(self) -> int:
        """The finest level whose domains are wider than a node; ROOT if there is none."""
        return self.node_level - (2 if self.labels[-1:] == (HOSTNAME,) else 1)

    def whole(self, *, labelled: bool) -> Domain:
        """All nodes, or those that have every label."""
        return Domain(ROOT, 0, 0, self.labelled if labelled else len(self.nodes))

    def domain(self, level: int, at: int) -> Domain:
        starts = self.starts[level]
        return Domain(level, at, int(starts[at]), int(starts[at + 1]))

    def inside(self, domain: Domain, level: int) -> tuple[int, int]:
        """The domains of *level* inside *domain*: first and one after the last."""
        if domain.first == domain.last:
            return 0, 0
        of = self.of[level]
        return int(of[domain.first]), int(of[domain.last - 1]) + 1

    def path(self, domain: Domain) -> tuple[str, ...]:
        """The values of its labels, coarse to fine; of a node with its name behind."""
        if domain.level == ROOT:
            return ()
        if domain.level == self.node_level:
            return self.path_of_node(self.nodes[domain.first].node.name)
        return self.paths[domain.first][: domain.level + 1]

    def path_of_node(self, name: str) -> tuple[str, ...]:
        """As `path`; the name is not said twice where the finest key is the host name."""
        at = self.index[name]
        path = self.paths[at] if at < self.labelled else ()
        return path if path and self.labels[-1:] == (HOSTNAME,) else (*path, name)


def path_of(node: Node, labels: Sequence[str]) -> tuple[str, ...] | None:
    """The values of *labels* on *node*; None if it lacks one.  Its host name is its own name where no label says another."""
    found = []
    for label in labels:
        value = node.labels.get(label, node.name if label == HOSTNAME else None)
        if value is None:
            return None
        found.append(value)
    return tuple(found)


class PodShape(NamedTuple):
    """Pods that ask the same on nodes of one flavor."""

    requests: Requests
    flavor: str


class FitCounts:
    """How many pods of one shape fit: *levels* has per level of the topology one number per domain, the last per node.

    *takes*: which nodes take such pods at all.
    """

    __slots__ = ("levels", "takes")

    def __init__(self, levels: list[Ints], takes: NDArray[np.bool_]) -> None:
        self.levels = levels
        self.takes = takes

    @classmethod
    def of(
        cls, topology: TopologyIndex, shape: PodShape, layers: Sequence[int], takes: NDArray[np.bool_]
    ) -> "FitCounts":
        """Counted anew.  O(nodes)."""
        count = len(topology.nodes)
        fitting = np.full(count, MOST_PER_NODE, dtype=np.int64)
        for layer in layers:
            np.minimum(fitting, _fitting(topology.nodes, shape.requests, layer), out=fitting)
        fitting[~takes] = 0
        levels = [
            np.add.reduceat(fitting, starts[:-1]) if count else np.zeros(0, dtype=np.int64)
            for starts in topology.starts[:-1]
        ]
        return cls([*levels, fitting], takes)

    def copy(self) -> "FitCounts":
        return FitCounts([each.copy() for each in self.levels], self.takes)

    def set(self, topology: TopologyIndex, at: int, fitting: int) -> None:
        """Node *at* has room for *fitting* pods from now on."""
        nodes = self.levels[-1]
        more = min(fitting, MOST_PER_NODE) - int(nodes[at])
        if more and self.takes[at]:
            for level, of in zip(self.levels, topology.of, strict=True):
                level[of[at]] += more


def _fitting(rooms: Sequence[NodeCapacity], requests: Requests, layer: int) -> Ints:
    """Pods per node, as `pods_in` counts them one by one."""
    most = np.full(len(rooms), MOST_PER_NODE, dtype=np.int64)
    for resource, amount in requests:
        left = np.array([room.free[layer].get(resource, UNLISTED) for room in rooms], dtype=np.int64)
        fitting = np.maximum(left, 0) // amount
        if resource in UNLISTED_IS_UNCOUNTED:
            fitting[left == UNLISTED] = MOST_PER_NODE
        np.minimum(most, fitting, out=most)
    return most


class FitCountCache:
    """The counts of the shapes that were asked for lately, kept up to date with what changes on nodes.

    *takes*: which nodes, by the name of a flavor, take pods at all; the second for the view in which all nodes are empty and up.
    """

    MOST = 64
    """Shapes that are kept; the one that was not asked for longest goes first."""

    def __init__(
        self, topology: TopologyIndex, takes: Mapping[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]]
    ) -> None:
        self.topology = topology
        self._takes = takes
        self._kept: dict[tuple[PodShape, tuple[int, ...]], tuple[FitCounts, int]] = {}
        self._free: dict[tuple[str, int], tuple[Ints, int]] = {}

    def free(self, resource: str, layer: int, journal: "Journal") -> Ints:
        """Per node what is free of *resource*, UNLISTED where it is not listed; to be read only.  O(nodes that changed)."""
        rooms = self.topology.nodes
        column, since = self._free.get((resource, layer), (None, 0))
        changed = journal.since(since) if column is not None else None
        if column is None or changed is None:
            column = np.array([room.free[layer].get(resource, UNLISTED) for room in rooms], dtype=np.int64)
        else:
            for name in changed:
                at = self.topology.index[name]
                column[at] = rooms[at].free[layer].get(resource, UNLISTED)
        self._free[resource, layer] = (column, journal.end)
        return column

    def counts(self, shape: PodShape, layers: tuple[int, ...], journal: "Journal") -> FitCounts:
        """To be read only, and only until something changes on a node.  O(nodes that changed since it was asked for)."""
        key = (shape, layers)
        kept = self._kept.pop(key, None)
        if kept is None or not self._follow(*key, *kept, journal):
            kept = (self._anew(shape, layers), journal.end)
            if len(self._kept) >= self.MOST:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = (kept[0], journal.end)
        return kept[0]

    def _anew(self, shape: PodShape, layers: tuple[int, ...]) -> FitCounts:
        nothing = np.zeros(len(self.topology.nodes), dtype=np.bool_)
        usable, registered = self._takes.get(shape.flavor, (nothing, nothing))
        return FitCounts.of(self.topology, shape, layers, registered if EMPTY in layers else usable)

    def _follow(
        self, shape: PodShape, layers: tuple[int, ...], counts: FitCounts, since: int, journal: "Journal"
    ) -> bool:
        """False: too much has changed."""
        changed = journal.since(since)
        if changed is None or 4 * len(changed) > len(self.topology.nodes) + 64:
            return False
        for name in changed:
            at = self.topology.index[name]
            room = self.topology.nodes[at]
            counts.set(self.topology, at, min(room.pods(shape.requests, layer) for layer in layers))
        return True
