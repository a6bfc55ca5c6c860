"""The queue: gangs as the ledger keeps them, and buckets of equivalent gangs, in the order of rule P4."""

import enum
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from runrig.domain.gangs import Gang, GangState, Law, Placement, Requirement
from runrig.domain.pools import Pool
from runrig.domain.quantities import Requests
from runrig.engine.quota.quota_node import CHARGED, REAL, QuotaLeaf, Request

Order = tuple[int, float, str]
"""Queue position by rule P4: higher rank, earlier submission, id; lower values come first."""

Option = tuple[Placement, Request]
"""A choice of flavors, without nodes, and its request to the tree."""

AskedBy = tuple[QuotaLeaf, frozenset[str], Pool]
"""Everything that determines the request of a bucket: the leaf, the resources that it counts, the pool."""

SPARE = 64
"""Outdated entries that a barrier may keep, in addition to one per sleeper."""


class BucketKey(NamedTuple):
    """Gangs that get the same answer: same leaf, rank and shape, and all or none of them refused (rule T7).

    *user*: who submitted them, if a limit of GPUs applies to that user there (rule W6); otherwise empty.
    """

    pool: str
    firm: bool
    rank: int
    shape: tuple[tuple[int, int | None, Requests, str | None, tuple[Requirement, ...]], ...]
    refused: bool = False
    user: str = ""


class Pass(enum.IntEnum):
    """The part of a cycle that evaluates a bucket: HIGH and NORMAL; LOW within its pool's nominal; LOW that borrows."""

    FIRM = 0
    WITHIN = 1
    BORROWING = 2


Place = tuple[Order, int, "Bucket"]
"""The order of the bucket's head when it was filed, a unique number as tie-breaker, and the bucket."""

_numbers = count()


class Barrier:
    """The buckets asleep at one condition, by pass and need, in order. *key*, *sources*: see `Sleepers.barrier`.

    *room*: what is available now, in the unit of the needs; only called in cycles.
    *rises*: how often something was released at its sources; used as the room if *room* is None.
    An entry is outdated once its bucket is awake or sleeps for another need or pass. Outdated entries are dropped when they are
    reached.
    """

    __slots__ = ("_places", "filed", "key", "rises", "room", "sleepers", "sources")

    def __init__(self, key: Hashable, sources: tuple[Hashable, ...], room: Callable[[], int] | None) -> None:
        self.key, self.sources = key, sources
        self.rises: int = 0
        self.room = room or (lambda: self.rises)
        self._places: tuple[dict[int, list[Place]], ...] = ({}, {}, {})
        self.sleepers = 0
        self.filed = 0

    def file(self, bucket: "Bucket", turn: Pass, need: int) -> None:
        """Files *bucket* under its current head."""
        heappush(self._places[turn].setdefault(need, []), (bucket.waiting[0].order, next(_numbers), bucket))
        self.filed += 1
        if self.filed > 2 * self.sleepers + SPARE:
            self._tidy()

    def needs(self, turn: Pass) -> list[int]:
        """All needs of sleepers that the current room satisfies."""
        room = self.room() if self._places[turn] else 0
        return [need for need in self._places[turn] if need <= room]

    def asleep_for(self, turn: Pass, need: int) -> Iterator["Bucket"]:
        """Yields the buckets that sleep for *need*, unordered and possibly more than once."""
        return (bucket for *_, bucket in self._places[turn].get(need, ()) if self._sleeps(bucket, turn, need))

    def first(self, turn: Pass, need: int) -> Place | None:
        """The first bucket in the queue that sleeps for *need*, with its position, or None."""
        places = self._places[turn].get(need, [])
        while places:
            order, _, bucket = places[0]
            if not self._sleeps(bucket, turn, need):
                heappop(places)
                self.filed -= 1
            elif order != bucket.waiting[0].order:  # its head has left; an earlier one is filed ahead of this
                heapreplace(places, (bucket.waiting[0].order, next(_numbers), bucket))
            else:
                return places[0]
        self._places[turn].pop(need, None)
        return None

    def _sleeps(self, bucket: "Bucket", turn: Pass, need: int) -> bool:
        return bucket.asleep is turn and bucket.before.get(self) == need

    def _tidy(self) -> None:
        self.filed = 0
        for turn in Pass:
            for need, places in list(self._places[turn].items()):
                known = dict.fromkeys(bucket for *_, bucket in places if self._sleeps(bucket, turn, need))
                self._places[turn][need] = kept = [
                    (bucket.waiting[0].order, next(_numbers), bucket) for bucket in known
                ]
                heapify(kept)
                self.filed += len(kept)
                if not kept:
                    del self._places[turn][need]


AWAKE: Mapping[Barrier, int] = {}
"""The barriers of a bucket that is awake: none."""


@dataclass(slots=True, eq=False, repr=False)
class Bucket:
    """The waiting gangs with one key. *waiting*: in order.

    *counts*: pods per pod set of the full gang. *asleep*: the pass in which it failed; None: awake.
    *before*: the barriers at which it sleeps, each with the amount that it needs (`sleeping.py`).
    *parked*: for STRICT_FIFO pools, whose buckets do not sleep: `Sleepers.changes` when no placement was found for its head.
    *options*: the flavor choices of the full gang with their requests; *options_of*: what they were computed from.
    *first*, *first_of*: the request of the first option, cached by `queue_order`.
    """

    key: BucketKey
    pool: str = field(init=False)
    firm: bool = field(init=False)
    rank: int = field(init=False)
    counts: tuple[int, ...] = field(init=False)
    waiting: list["Entry"] = field(default_factory=list)
    asleep: Pass | None = None
    before: Mapping[Barrier, int] = field(default_factory=lambda: AWAKE)
    parked: int | None = None
    options: tuple[Option, ...] = ()
    options_of: tuple[AskedBy, str] | None = None
    first: Request = ()
    first_of: AskedBy | None = None

    def __post_init__(self) -> None:
        self.pool, self.firm, self.rank, *_ = self.key
        self.counts = tuple(count for count, *_ in self.key.shape)

    @property
    def least_gpus(self) -> int:
        """GPUs of the smallest size that its gangs accept (rule A1)."""
        return self.waiting[0].gang.gpus([count if least is None else least for count, least, *_ in self.key.shape])

    def add(self, entry: "Entry") -> None:
        last = not self.waiting or self.waiting[-1].order < entry.order  # usually True: gangs arrive in order
        self.waiting.insert(len(self.waiting) if last else self.ahead_of(entry), entry)

    def remove(self, entry: "Entry") -> None:
        del self.waiting[0 if self.waiting[0] is entry else self.ahead_of(entry)]

    def ahead_of(self, entry: "Entry") -> int:
        """How many gangs of the bucket are ahead of *entry*, which has the same rank. O(log gangs)."""
        return bisect_left(self.waiting, entry.order, key=in_order)


def asked(gang: Gang) -> int:
    """GPUs of the gang at full size."""
    return gang.gpus([each.count for each in gang.pod_sets])


def bucket_key(gang: Gang, user: str = "") -> BucketKey:
    shape = tuple([(each.count, each.min_count, each.requests, each.platform, each.topology) for each in gang.pod_sets])
    return BucketKey(gang.pool, not gang.priority.may_borrow, gang.priority.rank, shape, bool(gang.refused), user)


class PoolQueue:
    """The waiting gangs of one pool with one rank.

    *times*: their submission times, sorted, so that positions are found by bisection.
    *bounds*, *bounds_of*: (index, minimum, maximum) of the first requests of its buckets, cached by `queue_order`.
    """

    __slots__ = ("_gpus", "bounds", "bounds_of", "buckets", "times")

    def __init__(self) -> None:
        self.buckets: list[Bucket] = []
        self.times = array("d")
        self.bounds: tuple[tuple[int, int, int], ...] = ()
        self.bounds_of: AskedBy | None = None
        self._gpus: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs that its gangs request at full size. O(buckets) for the first call, then kept up to date."""
        if self._gpus is None:
            self._gpus = sum(len(bucket.waiting) * asked(bucket.waiting[0].gang) for bucket in self.buckets)
        return self._gpus

    @property
    def counted(self) -> bool:
        """Whether `gpus` has been requested."""
        return self._gpus is not None

    def add(self, entry: "Entry") -> None:
        """Adds *entry*, which has just been added to its bucket."""
        if self._gpus is not None:
            self._gpus += asked(entry.gang)
        insort(self.times, entry.gang.submitted_at)
        if len(entry.bucket.waiting) == 1:
            self.buckets.append(entry.bucket)
            self.bounds_of = None

    def remove(self, entry: "Entry") -> None:
        """Removes *entry*, which has just been removed from its bucket."""
        if self._gpus is not None:
            self._gpus -= asked(entry.gang)
        del self.times[bisect_left(self.times, entry.gang.submitted_at)]
        if not entry.bucket.waiting:
            self.buckets.remove(entry.bucket)
            self.bounds_of = None

    def ahead_of(self, entry: "Entry") -> int:
        """How many gangs here are ahead of *entry*, which has the same rank.

        O(log gangs); O(buckets × log gangs) if some were submitted at the same time.
        """
        at = entry.gang.submitted_at
        place = bisect_left(self.times, at)
        if place < len(self.times) and self.times[place] == at:
            return sum([bucket.ahead_of(entry) for bucket in self.buckets])
        return place


class Rank:
    """The waiting gangs with one rank: their queues by pool, and their number."""

    __slots__ = ("by_pool", "gangs")

    def __init__(self) -> None:
        self.by_pool: dict[str, PoolQueue] = {}
        self.gangs = 0

    def add(self, entry: "Entry") -> None:
        """Adds *entry*, which has just been added to its bucket."""
        self.gangs += 1
        pool = entry.bucket.pool
        queue = self.by_pool.get(pool)
        if queue is None:
            queue = self.by_pool[pool] = PoolQueue()
        queue.add(entry)

    def remove(self, entry: "Entry") -> None:
        """Removes *entry*, which has just been removed from its bucket."""
        self.gangs -= 1
        queue = self.by_pool[entry.bucket.pool]
        queue.remove(entry)
        if not queue.buckets:
            del self.by_pool[entry.bucket.pool]


def last_first(buckets: Iterable[Bucket]) -> list[tuple[tuple[int, float], Bucket]]:
    """*buckets*, last first, each with the queue position of its head without the id: by rank, then by time of submission."""
    found = list(buckets)
    times = [bucket.waiting[0].gang.submitted_at for bucket in found]
    ranks = [-bucket.rank for bucket in found]
    order = np.lexsort((times, ranks))
    return [((ranks[at], times[at]), found[at]) for at in order[::-1].tolist()]


@dataclass(slots=True, eq=False, repr=False)
class Entry:
    """A gang in the ledger. *charged*, *held*: whether it counts in layer CHARGED and REAL."""

    gang: Gang
    bucket: Bucket
    user: str = ""
    state: GangState = GangState.PENDING
    placement: Placement = ()
    request: Request = ()
    waits_for: tuple[str, ...] = ()
    admitted_at: float | None = None
    preempted_by: str | None = None
    law: Law | None = None
    charged: bool = False
    held: bool = False

    @staticmethod
    def of(gang: Gang) -> "Entry":
        """*gang* outside the ledger, as if no limit of GPUs applied to its user."""
        return Entry(gang, Bucket(bucket_key(gang)))

    def copy(self) -> "Entry":
        """An entry with the same values. What-if runs restore an entry from its copy (`Ledger.put_back`)."""
        return Entry(*_FIELDS(self))

    @property
    def order(self) -> Order:
        """Its queue position. Not stored: of 100,000 waiting gangs, few are compared at a time."""
        return -self.bucket.rank, self.gang.submitted_at, self.gang.id

    @property
    def layers(self) -> list[int]:
        return [layer for layer, counts in ((CHARGED, self.charged), (REAL, self.held)) if counts]

    @property
    def preemption_key(self) -> tuple[int, float, str]:
        """The order of rule R3 among candidates of one pool: lower priority, later start, id."""
        return (self.bucket.rank, -(self.admitted_at or 0.0), self.gang.id)


_FIELDS = attrgetter(*(each.name for each in fields(Entry)))

in_order = attrgetter("order")
"""Sorts entries by queue position."""
