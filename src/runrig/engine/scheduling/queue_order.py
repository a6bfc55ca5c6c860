"""The order in which gangs are looked at (scheduling.md; law P4).

One order over all pools: priority, then LOW within its pool's nominal before LOW that borrows, then submit time, then id.
Where weights differ, LOW that borrows goes by share before submit time.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, takewhile
from operator import sub

from runrig.domain.steps import Steps
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import AskedBy, Barrier, Bucket, Entry, Order, Pass, PoolQueue, last_first
from runrig.engine.ledger.sleeping import Sleepers
from runrig.engine.quota.quota_node import CHARGED, QuotaLeaf, QuotaNode, Request
from runrig.engine.quota.tournament import Tournament, smallest_share
from runrig.engine.scheduling.put_off import may_start


class QueueHeads:
    """Waiting gangs in order, drawn bucket by bucket: a bucket whose head failed is left out as a whole.

    Beside *buckets*, which are awake, it draws those that sleep through *turn* until there may be room for them, each as its turn
    comes.  Who is woken when its turn has passed is left to the next cycle.  O(log buckets) per gang drawn; whoever sleeps on
    costs nothing.
    """

    def __init__(self, sleepers: Sleepers, buckets: Iterable[Bucket], turn: Pass) -> None:
        self._sleepers = sleepers
        self._turn = turn
        self._seen = 0
        self._number = count()
        self._later = last_first(buckets)
        self._heap: list[tuple[Order, int, Bucket | tuple[Barrier, int]]] = []

    def __iter__(self) -> Iterator[Entry]:
        """Each gang once, if what was drawn before it left its bucket; ask `next_of` for the one behind it."""
        passed: Order | None = None
        while True:
            self._take_in_what_rose()
            self._take_in_who_is_next()
            if not self._heap:
                break
            order, _, drawn = heappop(self._heap)
            bucket = drawn if isinstance(drawn, Bucket) else self._wake(order, *drawn)
            if bucket is not None and (passed is None or order > passed):
                passed = order
                yield bucket.waiting[0]
        del self._sleepers.risen[self._turn][: self._seen]

    def next_of(self, bucket: Bucket) -> None:
        """The bucket's head has gone: the next of the bucket takes its place in the order."""
        if bucket.waiting:
            heappush(self._heap, (bucket.waiting[0].order, next(self._number), bucket))

    def _take_in_what_rose(self) -> None:
        risen = self._sleepers.risen[self._turn]
        if self._seen < len(risen):
            for barrier in dict.fromkeys(risen[self._seen :]):
                for need in barrier.needs(self._turn):
                    self._push_first(barrier, need)
            self._seen = len(risen)

    def _take_in_who_is_next(self) -> None:
        """Their full places are made only as their turns come: to make those of all at once takes as long as many looks."""
        while self._later and (not self._heap or self._later[-1].place <= self._heap[0][0][:2]):
            self.next_of(self._later.pop())

    def _push_first(self, barrier: Barrier, need: int) -> None:
        first = barrier.first(self._turn, need)
        if first is not None:
            heappush(self._heap, (first[0], next(self._number), (barrier, need)))

    def _wake(self, order: Order, barrier: Barrier, need: int) -> Bucket | None:
        """The bucket that stands at *order* before *barrier*; None if there is no room any more, or another is first now."""
        first = barrier.first(self._turn, need)
        if first is None or need > barrier.room():
            return None
        stands_at, _, bucket = first
        if stands_at == order:
            self._sleepers.wake(bucket)
        self._push_first(barrier, need)
        return bucket if stands_at == order else None


class HeadsByShare:
    """As `QueueHeads`, of LOW that borrows in a tree with unequal weights: the smallest share goes first.

    A share is what is borrowed when the head is drawn, so whoever starts puts the pools around it further back.
    """

    def __init__(self, ledger: Ledger, buckets: Iterable[Bucket]) -> None:
        self._leaves = ledger.tree.low
        self._queues: dict[QuotaLeaf, list[tuple[Order, Entry]]] = {}
        for bucket in buckets:
            heappush(self._queues.setdefault(self._leaves[bucket.pool], []), _placed(bucket.waiting[0]))
        self._tournament = Tournament(ledger.tree.root, self._queues, smallest_share)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._tournament)

    def next_of(self, bucket: Bucket) -> None:
        """As `QueueHeads.next_of`."""
        if bucket.waiting:
            heappush(self._queues[self._leaves[bucket.pool]], _placed(bucket.waiting[0]))


def low_heads(ledger: Ledger) -> QueueHeads:
    """LOW that waits, in order: the first of the two passes over it, in which those that would borrow are set aside.

    Of pools that hold less than before, those that no longer would borrow are awake.  Where weights differ, whoever is awake is
    drawn among all others: between equal shares the place of a gang counts that cannot start itself.
    """
    sleepers = ledger.sleepers
    for bucket in sleepers.borrowers(sleepers.eased):
        if not would_borrow(ledger, bucket.waiting[0]):
            sleepers.wake(bucket)
    sleepers.eased.clear()
    for bucket in may_start(ledger, firm=False):
        sleepers.wake(bucket)
    if ledger.tree.weighted:
        for turn in (Pass.WITHIN, Pass.BORROWING):
            deque(QueueHeads(sleepers, (), turn), maxlen=0)  # wakes them
    low = [bucket for bucket in sleepers.awake if not bucket.firm]
    if low and ledger.tree.weighted:
        low = [bucket for bucket in ledger.pending.values() if not bucket.firm]
    return QueueHeads(sleepers, low, Pass.WITHIN)


def borrowing_heads(ledger: Ledger, buckets: Iterable[Bucket]) -> QueueHeads | HeadsByShare:
    """Waiting gangs of *buckets*, which are LOW and would borrow, in the order of law P4."""
    if ledger.tree.weighted:
        return HeadsByShare(ledger, buckets)
    return QueueHeads(ledger.sleepers, buckets, Pass.BORROWING)


def would_borrow(ledger: Ledger, entry: Entry) -> bool:
    """The full gang would take its pool above nominal, in the first flavor that the pool has for it."""
    pool = ledger.tree.pools[entry.gang.pool]
    return any(amount > _left_of_nominal(pool, index) for index, amount in _first_request(ledger, entry))


def _first_request(ledger: Ledger, entry: Entry) -> Request:
    _, request = next(iter(options(ledger, entry, entry.bucket.counts)), ((), ()))
    return request


def _left_of_nominal(pool: QuotaNode, index: int) -> int:
    """How much more *pool* may hold without borrowing."""
    return pool.subtree[index] + pool.drawn(index, CHARGED) - pool.usage[CHARGED][index]


def waiting_in_order(ledger: Ledger) -> list[Entry]:
    """Everything that is pending, in the order in which the next cycle looks at it.

    Who borrows, and how much, is asked as things stand: what starts in that cycle may still make a borrower of those behind
    it, and a larger one.  O(n log n); for people, not for cycles.
    """
    waiting: list[tuple[tuple[int, bool], Order, Entry]] = []
    by_share: list[Bucket] = []
    for bucket in ledger.pending.values():
        kind = kind_of(ledger, bucket)
        if goes_by_share(ledger, kind):
            by_share.append(bucket)
        else:
            waiting += [(kind, entry.order, entry) for entry in bucket.waiting]
    return [
        *(entry for *_, entry in sorted(waiting, key=lambda item: item[:2])),
        *_in_order_of_shares(ledger, by_share),
    ]


POOLS_PER_STEP = 32
"""Pools that one step asks how many of their gangs come before another: some 2 ms the first time."""


def ahead_of(ledger: Ledger, entry: Entry) -> Steps[tuple[int, int]]:
    """How many gangs the next cycle looks at before *entry*, which waits: in all pools, and in its own.

    The same order as `waiting_in_order`, without writing it out.  O(buckets of its rank x log gangs); for LOW that borrows where
    weights differ O(gangs before it x log gangs).
    """
    mine = entry.bucket
    higher = [each for rank, each in ledger.ranks.items() if rank > mine.rank]
    everywhere = sum(each.gangs for each in higher)
    in_pool = sum(len(each.by_pool[mine.pool].times) for each in higher if mine.pool in each.by_pool)
    borrows = not mine.firm and would_borrow(ledger, mine.waiting[0])
    by_share: list[Bucket] = []
    for asked, pool in enumerate(list(ledger.ranks[mine.rank].by_pool)):
        if asked % POOLS_PER_STEP == 0:
            yield
        queue = ledger.ranks[mine.rank].by_pool[pool]  # a trial between two steps may have made it anew
        if mine.firm:
            before = queue.ahead_of(entry)
        elif borrows and ledger.tree.weighted:
            before = _within_nominal(ledger, pool, queue, by_share)
        else:
            before = _low_ahead(ledger, pool, queue, entry, borrows=borrows)
        everywhere += before
        if pool == mine.pool:
            in_pool += before
    for other in takewhile(lambda each: each is not entry, _in_order_of_shares(ledger, by_share)):
        everywhere += 1
        in_pool += other.gang.pool == mine.pool
    return everywhere, in_pool


def _low_ahead(ledger: Ledger, pool: str, queue: PoolQueue, entry: Entry, *, borrows: bool) -> int:
    """How many of *queue*, LOW work of *pool*, come before *entry*, which is LOW; *borrows*: whether that one would."""
    left = _left_of_nominals(ledger, pool)
    some = False
    for index, least, most in _bounds(ledger, pool, queue):
        if least > left[index]:  # everybody would borrow
            return queue.ahead_of(entry) if borrows else 0
        some = some or most > left[index]
    if not some:
        return len(queue.times) if borrows else queue.ahead_of(entry)
    before = 0
    for bucket in queue.buckets:
        if any(amount > left[index] for index, amount in bucket.first) == borrows:
            before += bucket.ahead_of(entry)
        elif borrows:
            before += len(bucket.waiting)
    return before


def _within_nominal(ledger: Ledger, pool: str, queue: PoolQueue, borrowing: list[Bucket]) -> int:
    """How many of *queue*, LOW work of *pool*, would not borrow; the buckets of all others are added to *borrowing*."""
    left, within = _left_of_nominals(ledger, pool), 0
    _bounds(ledger, pool, queue)
    for bucket in queue.buckets:
        if any(amount > left[index] for index, amount in bucket.first):
            borrowing.append(bucket)
        else:
            within += len(bucket.waiting)
    return within


def _left_of_nominals(ledger: Ledger, name: str) -> list[int]:
    """`_left_of_nominal` of each index."""
    pool = ledger.tree.pools[name]
    if pool.guarantee is not None:
        return [_left_of_nominal(pool, index) for index in range(len(pool.nominal))]
    return list(map(sub, pool.subtree, pool.usage[CHARGED]))


def _bounds(ledger: Ledger, pool: str, queue: PoolQueue) -> tuple[tuple[int, int, int], ...]:
    """(index, least, most) over what the buckets of *queue* ask for first (`Bucket.first`, which is up to date then)."""
    leaf = ledger.tree.low[pool]
    asked_by: AskedBy = (leaf, leaf.counted, ledger.pools[pool])
    if queue.bounds_of != asked_by:
        for bucket in queue.buckets:
            if bucket.first_of != asked_by:
                bucket.first, bucket.first_of = _first_request(ledger, bucket.waiting[0]), asked_by
        requests = [dict(bucket.first) for bucket in queue.buckets]
        asked = sorted({index for request in requests for index in request})
        amounts = [(index, [request.get(index, 0) for request in requests]) for index in asked]
        queue.bounds = tuple((index, min(each), max(each)) for index, each in amounts)
        queue.bounds_of = asked_by
    return queue.bounds


def head_of(ledger: Ledger, pool: str) -> Entry | None:
    """Returns the gang of *pool* that the next cycle looks at first.  O(its buckets)."""
    here = [
        bucket
        for rank in ledger.ranks.values()
        for bucket in (rank.by_pool[pool].buckets if pool in rank.by_pool else ())
    ]
    heads = [(kind_of(ledger, bucket), bucket.waiting[0]) for bucket in here]
    return min(heads, key=lambda each: (each[0], each[1].order))[1] if heads else None


def kind_of(ledger: Ledger, bucket: Bucket) -> tuple[int, bool]:
    """Returns what comes before submit time in law P4; lower comes first.  All of a bucket ask for the same."""
    return -bucket.rank, not bucket.firm and would_borrow(ledger, bucket.waiting[0])


def goes_by_share(ledger: Ledger, kind: tuple[int, bool]) -> bool:
    """Shares, not submit times, tell which pool goes first among gangs of this kind."""
    return kind[1] and ledger.tree.weighted


def _in_order_of_shares(ledger: Ledger, buckets: Iterable[Bucket]) -> Iterator[Entry]:
    """All gangs of *buckets*, as shares stand."""
    queues: dict[QuotaLeaf, list[tuple[Order, Entry]]] = {}
    for bucket in buckets:
        queues.setdefault(ledger.tree.low[bucket.pool], []).extend(map(_placed, bucket.waiting))
    for queue in queues.values():
        heapify(queue)
    return iter(Tournament(ledger.tree.root, queues, smallest_share))


def _placed(entry: Entry) -> tuple[Order, Entry]:
    return entry.order, entry
