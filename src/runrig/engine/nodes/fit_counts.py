"""How many pods of a shape fit into each domain of a topology (rules T1, T5).

Counts are cached. A changed node updates the domains that contain it, O(levels); nothing is counted again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED, Requests
from runrig.domain.steps import Steps
from runrig.engine.nodes.node_capacity import EMPTY, Journal, NodeCapacity
from runrig.engine.nodes.topology import Ints, TopologyIndex

MOST_PER_NODE = 1 << 40
"""The count for pods that request nothing countable. Sums over all nodes stay within 64 bits."""

UNLISTED = -(1 << 62)

MANY = 8
"""With at least this many changed nodes, one vectorised update is faster."""

NODES_PER_STEP = 4_000
"""Nodes per step when a column is filled: 1 ms, or 2 ms if their data is not in the processor's cache."""

NOTHING: Mapping[str, int] = {}


class PodShape(NamedTuple):
    """Pods with the same requests on nodes of one flavor. In `runrig.kueue`, *flavor* names a choice of nodes.

    *only_on*: the only node that they can use, whatever its flavor and state; None: any node of the flavor.
    """

    requests: Requests
    flavor: str
    only_on: str | None = None


@dataclass(slots=True, eq=False)
class FitCounts:
    """How many pods of one shape fit. *levels*: per level of the topology, one number per domain; the last level is the nodes.

    *takes*: per node, whether it accepts such pods at all.
    """

    levels: list[Ints]
    takes: NDArray[np.bool_]

    @classmethod
    def of(cls, topology: TopologyIndex, fitting: Ints, takes: NDArray[np.bool_]) -> "FitCounts":
        """*fitting*: pods per node, set to 0 for nodes that do not accept any. O(nodes)."""
        fitting[~takes] = 0
        levels = [
            np.add.reduceat(fitting, starts[:-1]) if len(fitting) else np.zeros(0, dtype=np.int64)
            for starts in topology.starts[:-1]
        ]
        return cls([*levels, fitting], takes)

    @classmethod
    def only_on(cls, topology: TopologyIndex, node: str) -> "FitCounts":
        """Any number of pods on *node*, and none on others. O(nodes)."""
        fitting = np.zeros(len(topology.nodes), dtype=np.int64)
        fitting[topology.index[node]] = MOST_PER_NODE
        return cls.of(topology, fitting, fitting > 0)

    def copy(self) -> "FitCounts":
        return FitCounts([level.copy() for level in self.levels], self.takes)

    def set(self, topology: TopologyIndex, at: int, fitting: int) -> None:
        """Sets the count of node *at* to *fitting*, or to 0 if it does not accept such pods."""
        more = (min(fitting, MOST_PER_NODE) if self.takes[at] else 0) - int(self.levels[-1][at])
        if more:
            for level, of in zip(self.levels, topology.of, strict=True):
                level[of[at]] += more

    def set_all(self, topology: TopologyIndex, at: Sequence[int] | Ints, fitting: Sequence[int] | Ints) -> None:
        """`set` for several distinct nodes."""
        nodes = np.asarray(at)
        more = np.where(self.takes[nodes], np.minimum(fitting, MOST_PER_NODE), 0) - self.levels[-1][nodes]
        for level, of in zip(self.levels, topology.of, strict=True):
            np.add.at(level, of[nodes], more)


def fitting_pods(
    rooms: Sequence[NodeCapacity], requests: Requests, layer: int, taken: Mapping[str, int] = NOTHING
) -> Ints:
    """Pods per node, like `pods_in`, after *taken* is subtracted from each. Nodes that lack *taken* have undefined counts."""
    columns = (_amounts([room.free[layer].get(resource, UNLISTED) for room in rooms]) for resource, _ in requests)
    return pods_per_node(len(rooms), requests, columns, taken)


def pods_per_node(nodes: int, requests: Requests, columns: Iterable[Ints], taken: Mapping[str, int] = NOTHING) -> Ints:
    """Pods per node. *columns*: the free amount per node, for each resource of *requests*."""
    most = np.full(nodes, MOST_PER_NODE, dtype=np.int64)
    for (resource, amount), left in zip(requests, columns, strict=True):
        fitting = np.maximum(left - taken[resource] if resource in taken else left, 0) // amount
        if resource in UNLISTED_IS_UNCOUNTED:
            fitting[left == UNLISTED] = MOST_PER_NODE
        most = np.minimum(most, fitting)
    return most.astype(np.int64, copy=False)


def with_more(free: Ints, more: Ints) -> Ints:
    """*free*, a column of `pods_per_node`, after *more* has been released."""
    freed: Ints = np.where(free == UNLISTED, UNLISTED, free + more)
    return freed


def fitting_in_all(rooms: Sequence[NodeCapacity], requests: Requests, layers: Iterable[int]) -> Ints:
    """Pods per node that fit in every one of *layers*, at most MOST_PER_NODE."""
    fitting = np.full(len(rooms), MOST_PER_NODE, dtype=np.int64)
    for layer in layers:
        np.minimum(fitting, fitting_pods(rooms, requests, layer), out=fitting)
    return fitting


def _amounts(values: list[int]) -> Ints:
    """One number per node: 64-bit integers, or slower Python integers if a value exceeds 64 bits."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=object)


class FitCountCache:
    """The counts of recently used shapes, updated as nodes change.

    *takes*: flavor → (nodes that accept pods now, nodes that would if all were empty and ready).
    """

    MOST = 64
    """Number of shapes kept; the least recently used one is dropped first."""

    def __init__(
        self, topology: TopologyIndex, takes: Mapping[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]]
    ) -> None:
        self.topology = topology
        self.takes = takes
        self._kept: dict[tuple[PodShape, tuple[int, ...]], tuple[FitCounts, int]] = {}
        self._free: dict[tuple[str, int], tuple[Ints, int]] = {}

    def free(self, resource: str, layer: int, journal: "Journal") -> Ints:
        """Free amounts of *resource* per node, UNLISTED if it does not list it. Read-only. O(changed nodes)."""
        rooms = self.topology.nodes
        column, since = self._free.get((resource, layer), (None, 0))
        changed = journal.since(since) if column is not None else None
        if column is None or changed is None:
            column = _amounts([room.free[layer].get(resource, UNLISTED) for room in rooms])
        else:
            places = self._places(changed)
            amounts = _amounts([rooms[at].free[layer].get(resource, UNLISTED) for at in places])
            column = column if amounts.dtype == column.dtype else column.astype(object)
            column[places] = amounts
        self._free[resource, layer] = (column, journal.end)
        return column

    def counts(self, shape: PodShape, layers: tuple[int, ...], journal: "Journal") -> FitCounts:
        """Valid until a node changes; read-only. O(nodes changed since the last call)."""
        key = (shape, layers)
        kept = self._kept.pop(key, None)
        if kept is None or not self._follow(*key, *kept, journal):
            kept = (self._anew(shape, layers, journal), journal.end)
            if len(self._kept) >= self.MOST:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = (kept[0], journal.end)
        return kept[0]

    def counts_in_steps(self, shape: PodShape, layers: tuple[int, ...], journal: "Journal") -> Steps[None]:
        """Fills the columns of a new shape, then counts it. Nodes must not change between the steps."""
        if (shape, layers) in self._kept:
            return
        for layer in layers:
            for resource, _ in shape.requests:
                if (resource, layer) not in self._free:
                    values: list[int] = []
                    for first in range(0, len(self.topology.nodes), NODES_PER_STEP):
                        yield
                        rooms = self.topology.nodes[first : first + NODES_PER_STEP]
                        values += [room.free[layer].get(resource, UNLISTED) for room in rooms]
                    self._free[resource, layer] = (_amounts(values), journal.end)
        yield
        self.counts(shape, layers, journal)

    def _anew(self, shape: PodShape, layers: tuple[int, ...], journal: "Journal") -> FitCounts:
        many = len(self.topology.nodes)
        nothing = np.zeros(many, dtype=np.bool_)
        usable, registered = self.takes.get(shape.flavor, (nothing, nothing))
        fitting = np.full(many, MOST_PER_NODE, dtype=np.int64)
        for layer in layers:
            columns = (self.free(resource, layer, journal) for resource, _ in shape.requests)
            np.minimum(fitting, pods_per_node(many, shape.requests, columns), out=fitting)
        return FitCounts.of(self.topology, fitting, registered if EMPTY in layers else usable)

    def _follow(
        self, shape: PodShape, layers: tuple[int, ...], counts: FitCounts, since: int, journal: "Journal"
    ) -> bool:
        """Brings *counts* up to date. Returns False if too many nodes changed."""
        changed = journal.since(since)
        if changed is None or 4 * len(changed) > len(self.topology.nodes) + 64:
            return False
        places, requests = self._places(changed), shape.requests
        nodes = [self.topology.nodes[at] for at in places]
        if len(places) >= MANY:
            counts.set_all(self.topology, places, fitting_in_all(nodes, requests, layers))
        else:
            for at, node in zip(places, nodes, strict=True):
                counts.set(self.topology, at, min([node.pods(requests, layer) for layer in layers]))
        return True

    def _places(self, names: Iterable[str]) -> list[int]:
        """The positions of *names* in the topology; names that it does not contain are skipped."""
        index = self.topology.index
        return [index[name] for name in names if name in index]
