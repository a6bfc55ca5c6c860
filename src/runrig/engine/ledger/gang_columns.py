"""Gangs as columns: NumPy takes those that somebody asks for by masks, without looking at any of them one by one.

Kept as gangs come and go, and not made anew for each question.  A process that is forked only reads them, so its pages stay shared.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.gangs import Placement
from runrig.domain.quantities import Requests
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Domain, Ints, TopologyIndex
from runrig.engine.quota.quota_node import Request

Bools = NDArray[np.bool_]
Key = tuple[float, float, str]
"""The sort key of a gang."""

SPARE = 1024
"""How many slots of gangs that are gone are kept beside one for each that is there."""


class HeldRows(NamedTuple):
    """One row per gang, pod set and node.  *who*: the gang's place among those asked for; *node*: in topology order."""

    who: Ints
    node: Ints
    amounts: dict[str, Ints]


class _Left(NamedTuple):
    """The slot of a gang that left, and what it held."""

    slot: int
    placement: Placement
    request: Request
    since: float | None


class GangColumns:
    """Each gang has a *slot*, by which the columns are indexed; those that came since `refresh` have none yet.

    *entries*: by slot, also those that are gone.  *slots*: of those that are there.  *order*: these slots, sorted.
    *pool*, *request*: by slot, as numbers of *pools* and *requests*.
    """

    def __init__(self) -> None:
        self._new: dict[Entry, None] = {}
        self._clear()

    def _clear(self) -> None:
        self.entries: list[Entry] = []
        self.slots: dict[Entry, int] = {}
        self.pools: dict[str, int] = {}
        self.requests: dict[Request, int] = {}
        self.order, self.pool, self.request = (column(()) for _ in range(3))
        self._keys: list[tuple[Key, int]] = []  # of `_all`
        self._there = bytearray()
        self._all = column(())  # `order`, and some that are gone
        self._moved = False  # somebody left or came back since `order` was made
        self._left: dict[Entry, _Left] = {}  # since the last `refresh`
        # One row for each gang, pod set and node: the numbers of the node and of what a pod asks, and how many pods.
        self._rows = np.zeros((3, 0), dtype=np.int64)
        self._first_row = column((0,))  # by slot, and the end
        self._nodes: dict[str, int] = {}
        self._asked: dict[Requests, int] = {}
        self._places: dict[tuple[str, ...], tuple[TopologyIndex, Ints]] = {}

    # ------------------------------------------------------------ edits

    def add(self, entry: Entry) -> None:
        """*entry* belongs here from now on, and holds what it will hold.  What a trial took out and puts back gets its slot again."""
        left = self._left.pop(entry, None)
        if left is not None and left[1:] == (entry.placement, entry.request, entry.admitted_at):
            self.slots[entry] = left.slot
            self._there[left.slot] = self._moved = True
            self._is_back(entry, left.slot)
        else:
            self._new[entry] = None

    def remove(self, entry: Entry) -> None:
        """The inverse of `add`."""
        slot = self.slots.pop(entry, None)
        if slot is None:
            del self._new[entry]
        else:
            self._there[slot] = False
            self._moved = True
            self._left[entry] = _Left(slot, entry.placement, entry.request, entry.admitted_at)

    def _is_back(self, entry: Entry, slot: int) -> None:
        """*entry* has its *slot* again."""

    def forget(self) -> None:
        """All is made anew: gangs ask something else of the tree, or most of what is kept is of those that are gone."""
        self._new = dict.fromkeys((*self.slots, *self._new))
        self._clear()

    def _refresh(self, key: Callable[[Entry], Key]) -> int:
        """Brings the columns up to date, and returns how many gangs it took in.  O(these), and O(gangs) if any came or left."""
        if len(self.entries) > 2 * len(self.slots) + SPARE:
            self.forget()
        if self._new:
            came, first = list(self._new), len(self.entries)
            self._new, self._left = {}, {}
            self._keys = [each for each in self._keys if self._there[each[1]]]
            self._keys += [(key(entry), slot) for slot, entry in enumerate(came, start=first)]
            self._keys.sort()
            self._take_in(came)
            self.order = self._all = column([slot for _, slot in self._keys])
            self._moved = False
            return len(came)
        if self._moved:
            self.order = self._all[np.frombuffer(self._there, dtype=np.bool_)[self._all]]
            self._moved = False
        return 0

    def _take_in(self, came: Sequence[Entry]) -> None:
        pools, requests = self.pools, self.requests
        self.slots.update(zip(came, range(len(self.entries), len(self.entries) + len(came)), strict=True))
        self.entries += came
        self._there += bytes([True]) * len(came)
        self.pool = longer(self.pool, [pools.setdefault(each.gang.pool, len(pools)) for each in came])
        self.request = longer(self.request, [requests.setdefault(each.request, len(requests)) for each in came])
        self._add_rows(came)

    def _add_rows(self, came: Sequence[Entry]) -> None:
        nodes, asked = self._nodes, self._asked
        node: list[int] = []
        what: list[int] = []
        count: list[int] = []
        ends: list[int] = []
        for entry in came:
            for assignment, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
                asks = asked.setdefault(pod_set.requests, len(asked))
                for share in assignment.shares:
                    node.append(nodes.setdefault(share.node, len(nodes)))
                    what.append(asks)
                    count.append(share.count)
            ends.append(len(node))
        self._rows = np.concatenate([self._rows, np.array([node, what, count], dtype=np.int64)], axis=1)
        self._first_row = longer(self._first_row, self._first_row[-1] + np.array(ends, dtype=np.int64))

    # ------------------------------------------------------------ reading, after a refresh

    def by_pool(self, values: Mapping[str, int]) -> Ints:
        """*values* of pools, by their numbers; 0 for all others."""
        found = np.zeros(len(self.pools), dtype=np.int64)
        for name, value in values.items():
            if name in self.pools:
                found[self.pools[name]] = value
        return found

    def held(self, slots: Ints, resources: Sequence[str], topology: TopologyIndex, whole: Domain) -> HeldRows:
        """Returns what the gangs of *slots* hold of *resources* on the nodes of *whole*, a domain of *topology*."""
        first = self._first_row[slots]
        many = self._first_row[slots + 1] - first
        rows = np.arange(many.sum()) + (first - many.cumsum() + many).repeat(many)
        who, node = np.arange(len(slots)).repeat(many), self._places_in(topology)[self._rows[0, rows]]
        inside = (node >= whole.first) & (node < whole.last)
        if not inside.all():
            who, node, rows = who[inside], node[inside], rows[inside]
        what, count = self._rows[1, rows], self._rows[2, rows]
        return HeldRows(who, node, {each: self._per_pod(each)[what] * count for each in resources})

    def _per_pod(self, resource: str) -> Ints:
        """How much of *resource* a pod asks, by the number of what it asks."""
        return column([dict(asked).get(resource, 0) for asked in self._asked])

    def _places_in(self, topology: TopologyIndex) -> Ints:
        """By number of a node, its place in *topology*; -1 if it is not in it."""
        known, places = self._places.get(topology.labels, (topology, column(())))
        if known is not topology:
            places = column(())
        if len(places) < len(self._nodes):
            missing = list(self._nodes)[len(places) :]
            places = longer(places, [topology.index.get(name, -1) for name in missing])
            self._places[topology.labels] = topology, places
        return places


def column(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def longer(before: Ints, values: Sequence[int] | Ints) -> Ints:
    return np.concatenate([before, np.asarray(values, dtype=np.int64)])
