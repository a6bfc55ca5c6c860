"""Gangs as NumPy columns, so that queries can filter them with masks instead of visiting each one.

Updated as gangs come and go, not rebuilt for each query. A forked process only reads them, so its memory pages stay shared.
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
"""Slots of removed gangs that are kept, in addition to one per existing gang."""


class HeldRows(NamedTuple):
    """One row per gang, pod set and node. *who*: index of the gang among those queried. *node*: in topology order."""

    who: Ints
    node: Ints
    amounts: dict[str, Ints]


class _Left(NamedTuple):
    """The slot of a removed gang, and what it used."""

    slot: int
    placement: Placement
    request: Request
    since: float | None


class GangColumns:
    """Each gang has a *slot*, its index in the columns. Gangs added since `refresh` have none yet.

    *entries*: by slot, including removed gangs. *slots*: of existing gangs. *order*: their slots, sorted. *pool*, *request*: by
    slot, as numbers in *pools* and *requests*.
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
        self._keys: list[tuple[Key, int]] = []  # the sort keys of `_all`
        self._there = bytearray()
        self._all = column(())  # `order`, plus some removed gangs
        self._moved = False  # a gang was removed or restored since `order` was computed
        self._left: dict[Entry, _Left] = {}  # gangs removed since the last `refresh`
        # One row per gang, pod set and node: numbers of the node and of the requests per pod, and the number of pods.
        self._rows = np.zeros((3, 0), dtype=np.int64)
        self._first_row = column((0,))  # by slot: the gang's first row; finally the number of rows
        self._nodes: dict[str, int] = {}
        self._asked: dict[Requests, int] = {}
        self._places: dict[tuple[str, ...], tuple[TopologyIndex, Ints]] = {}

    # ------------------------------------------------------------ edits

    def add(self, entry: Entry) -> None:
        """Adds *entry*, whose placement is final. A gang that a what-if run removed and restores gets its slot back."""
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

    @property
    def behind(self) -> bool:
        """Whether gangs were added since `refresh`."""
        return bool(self._new)

    def _is_back(self, entry: Entry, slot: int) -> None:
        """*entry* got its *slot* back."""

    def forget(self) -> None:
        """Rebuilds everything at the next refresh: requests changed, or most of the data belongs to removed gangs."""
        self._new = dict.fromkeys((*self.slots, *self._new))
        self._clear()

    def _refresh(self, key: Callable[[Entry], Key]) -> int:
        """Brings the columns up to date and returns the number of gangs added. O(added), plus O(gangs) if any were added or removed."""
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
        """*values* by pool, as a list by pool number; 0 for all others."""
        found = np.zeros(len(self.pools), dtype=np.int64)
        for name, value in values.items():
            if name in self.pools:
                found[self.pools[name]] = value
        return found

    def held(self, slots: Ints, resources: Sequence[str], topology: TopologyIndex, whole: Domain) -> HeldRows:
        """The usage of *resources* by the gangs of *slots* on the nodes of *whole*, a domain of *topology*."""
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
        """The amount of *resource* that a pod requests, by number of the requests."""
        return column([dict(asked).get(resource, 0) for asked in self._asked])

    def _places_in(self, topology: TopologyIndex) -> Ints:
        """Position of each node in *topology*, by node number; -1 if it does not contain it."""
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
