"""The queue: gangs as the ledger keeps them, and buckets of gangs that get the same answer, in the order of law P4."""

import enum
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from runrig.domain.gangs import Gang, GangState, Law, Placement, Requirement
from runrig.domain.pools import Pool
from runrig.domain.quantities import GPU, Requests
from runrig.engine.quota.quota_node import CHARGED, REAL, QuotaLeaf, Request

Order = tuple[int, float, str]
"""Place in the order of law P4: higher rank, earlier submission, id; lower comes first."""

Option = tuple[Placement, Request]
"""A choice of flavors, without nodes, and what it asks of the tree."""

AskedBy = tuple[QuotaLeaf, frozenset[str], Pool]
"""What a request of a bucket is worked out from: the leaf, what it counts, the pool."""

SPARE = 64
"""How many outdated places a barrier may keep beside one for each sleeper."""


class BucketKey(NamedTuple):
    """Gangs that get the same answer: same leaf, same rank, same shape, and all of them or none to be tried (law T7)."""

    pool: str
    firm: bool
    rank: int
    shape: tuple[tuple[int, int | None, Requests, str | None, tuple[Requirement, ...]], ...]
    refused: bool = False


class Pass(enum.IntEnum):
    """In which part of a cycle a bucket is looked at: HIGH and NORMAL; LOW within its pool's nominal; LOW that borrows."""

    FIRM = 0
    WITHIN = 1
    BORROWING = 2


Place = tuple[Order, int, "Bucket"]
"""The order of a bucket's head when the place was given, a number that tells two places of one gang apart, and the bucket."""

_numbers = count()


class Barrier:
    """Who sleeps here, per pass and need, in order.  *key*, *sources*: as `Sleepers.barrier` made it.

    *room*: what is there now, in the unit of the needs; asked only in cycles.
    *rises*: how often something was given back at its source, which is the room where None is given.
    Places are outdated once their bucket is awake, or sleeps for another need or pass; they are dropped when they come up.
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
        """Gives *bucket* a place for its present head."""
        heappush(self._places[turn].setdefault(need, []), (bucket.waiting[0].order, next(_numbers), bucket))
        self.filed += 1
        if self.filed > 2 * self.sleepers + SPARE:
            self._tidy()

    def needs(self, turn: Pass) -> list[int]:
        """The needs that room is enough for, of all that somebody sleeps with."""
        room = self.room() if self._places[turn] else 0
        return [need for need in self._places[turn] if need <= room]

    def asleep_for(self, turn: Pass, need: int) -> Iterator["Bucket"]:
        """Yields those who sleep for *need*, in no order, some of them twice."""
        return (bucket for *_, bucket in self._places[turn].get(need, ()) if self._sleeps(bucket, turn, need))

    def first(self, turn: Pass, need: int) -> Place | None:
        """The first of those who sleep for *need*, with its place in the queue."""
        places = self._places[turn].get(need, [])
        while places:
            order, _, bucket = places[0]
            if not self._sleeps(bucket, turn, need):
                heappop(places)
                self.filed -= 1
            elif order != bucket.waiting[0].order:  # its head has left; of an earlier one there is a place before this
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


class Bucket:
    """The gangs of one key that wait.  *waiting*: in order.

    *counts*: pods per pod set of the full gang.  *asleep*: the pass of a cycle in which it failed, None while it is awake;
    *before*: the barriers that it sleeps before, each with what it needs there (`sleeping.py`).
    *parked*: of a STRICT_FIFO pool, whose buckets do not sleep: `Sleepers.changes` when its head found no place.
    *options*: what the full gang may take, with what that asks of the tree; *options_of*: what they were worked out from, and
    the name of the pod set.  *first*, *first_of*: the request of the first of them, as `queue_order` keeps it.
    """

    __slots__ = (
        "asleep",
        "before",
        "counts",
        "firm",
        "first",
        "first_of",
        "key",
        "options",
        "options_of",
        "parked",
        "pool",
        "rank",
        "waiting",
    )

    def __init__(self, key: BucketKey) -> None:
        self.key = key
        self.pool, self.firm, self.rank, *_ = key
        self.counts = tuple(count for count, *_ in key.shape)
        self.waiting: list[Entry] = []
        self.asleep: Pass | None = None
        self.before = AWAKE
        self.parked: int | None = None
        self.options: tuple[Option, ...] = ()
        self.options_of: tuple[AskedBy, str] | None = None
        self.first: Request = ()
        self.first_of: AskedBy | None = None

    @property
    def place(self) -> tuple[int, float]:
        """Its place in the order of law P4, but for the id: by rank, and by the submission of the first."""
        return -self.rank, self.waiting[0].gang.submitted_at

    def add(self, entry: "Entry") -> None:
        last = not self.waiting or self.waiting[-1].order < entry.order  # as most do
        self.waiting.insert(len(self.waiting) if last else self.ahead_of(entry), entry)

    def remove(self, entry: "Entry") -> None:
        del self.waiting[0 if self.waiting[0] is entry else self.ahead_of(entry)]

    def ahead_of(self, entry: "Entry") -> int:
        """How many of those who wait here come before *entry*, which is of the same rank.  O(log gangs)."""
        return bisect_left(self.waiting, entry.order, key=in_order)


def asked(gang: Gang) -> int:
    """GPUs at full size."""
    return sum(each.count * amount for each in gang.pod_sets for kind, amount in each.requests if kind == GPU)


def bucket_key(gang: Gang) -> BucketKey:
    shape = tuple([(each.count, each.min_count, each.requests, each.platform, each.topology) for each in gang.pod_sets])
    return BucketKey(gang.pool, not gang.priority.may_borrow, gang.priority.rank, shape, bool(gang.refused))


class PoolQueue:
    """All that waits in one pool with one rank.  *times*: when each was submitted, sorted: who is ahead is found without looking at any.

    *bounds*, *bounds_of*: (index, least, most) that its buckets ask for first, as `queue_order` keeps them.
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
        """GPUs that all of it asks for, at full size.  O(buckets) when it is asked first; from then on it is kept."""
        if self._gpus is None:
            self._gpus = sum(len(bucket.waiting) * asked(bucket.waiting[0].gang) for bucket in self.buckets)
        return self._gpus

    @property
    def counted(self) -> bool:
        """Somebody has asked for its `gpus`."""
        return self._gpus is not None

    def add(self, entry: "Entry") -> None:
        """*entry* has come to its bucket."""
        if self._gpus is not None:
            self._gpus += asked(entry.gang)
        insort(self.times, entry.gang.submitted_at)
        if len(entry.bucket.waiting) == 1:
            self.buckets.append(entry.bucket)
            self.bounds_of = None

    def remove(self, entry: "Entry") -> None:
        """*entry* has left its bucket."""
        if self._gpus is not None:
            self._gpus -= asked(entry.gang)
        del self.times[bisect_left(self.times, entry.gang.submitted_at)]
        if not entry.bucket.waiting:
            self.buckets.remove(entry.bucket)
            self.bounds_of = None

    def ahead_of(self, entry: "Entry") -> int:
        """How many of those who wait here come before *entry*, which is of the same rank.

        O(log gangs); O(buckets x log gangs) where some were submitted at the same time.
        """
        at = entry.gang.submitted_at
        place = bisect_left(self.times, at)
        if place < len(self.times) and self.times[place] == at:
            return sum([bucket.ahead_of(entry) for bucket in self.buckets])
        return place


class Rank:
    """All that waits with one rank: its queues, by pool, and the number of gangs in all of them."""

    __slots__ = ("by_pool", "gangs")

    def __init__(self) -> None:
        self.by_pool: dict[str, PoolQueue] = {}
        self.gangs = 0

    def add(self, entry: "Entry") -> None:
        """*entry* has come to its bucket."""
        self.gangs += 1
        pool = entry.bucket.pool
        queue = self.by_pool.get(pool)
        if queue is None:
            queue = self.by_pool[pool] = PoolQueue()
        queue.add(entry)

    def remove(self, entry: "Entry") -> None:
        """*entry* has left its bucket."""
        self.gangs -= 1
        queue = self.by_pool[entry.bucket.pool]
        queue.remove(entry)
        if not queue.buckets:
            del self.by_pool[entry.bucket.pool]


def last_first(buckets: Iterable[Bucket]) -> list[Bucket]:
    """*buckets* sorted by `Bucket.place`, the last one first."""
    found = list(buckets)
    times = np.array([bucket.waiting[0].gang.submitted_at for bucket in found])
    order = np.lexsort((times, np.array([-bucket.rank for bucket in found])))
    return [found[at] for at in order[::-1].tolist()]


class Entry:
    """A gang in the ledger.  *charged*, *held*: whether it counts in the layer CHARGED, REAL."""

    __slots__ = (
        "admitted_at",
        "bucket",
        "charged",
        "gang",
        "held",
        "law",
        "placement",
        "preempted_by",
        "request",
        "state",
        "waits_for",
    )

    def __init__(self, gang: Gang, bucket: Bucket | None = None) -> None:
        """*bucket*: where others of its key wait already."""
        self.gang = gang
        self.state = GangState.PENDING
        self.bucket = bucket or Bucket(bucket_key(gang))
        self.placement: Placement = ()
        self.request: Request = ()
        self.waits_for: tuple[str, ...] = ()
        self.admitted_at: float | None = None
        self.preempted_by: str | None = None
        self.law: Law | None = None
        self.charged = False
        self.held = False

    @property
    def order(self) -> Order:
        """Made when it is asked for: of 100,000 that wait, few are compared at a time."""
        return -self.bucket.rank, self.gang.submitted_at, self.gang.id

    @property
    def layers(self) -> list[int]:
        """The layers in which it holds its request."""
        return [layer for layer, counts in ((CHARGED, self.charged), (REAL, self.held)) if counts]

    @property
    def preemption_key(self) -> tuple[int, float, str]:
        """Who goes first among candidates of one place (law R3): lower priority, later start, id."""
        return (self.bucket.rank, -(self.admitted_at or 0.0), self.gang.id)


in_order = attrgetter("order")
"""Sorts entries by their place in the queue."""
