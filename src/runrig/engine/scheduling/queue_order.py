"""The order in which gangs are evaluated (rule P4).

One order over all pools: priority, then LOW within its pool's nominal before LOW that borrows, then time of submission, then
id. If weights differ, LOW that borrows is ordered by share before time of submission.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, merge
from itertools import count, islice, takewhile
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
    """Yields waiting gangs in order, bucket by bucket; a bucket whose head failed is left out as a whole.

    In addition to *buckets*, which are awake, it draws sleeping buckets of *turn* as soon as there may be room for them. A
    bucket that is woken after its turn has passed waits for the next cycle. O(log buckets) per gang drawn; buckets that stay
    asleep cost nothing.
    """

    def __init__(self, sleepers: Sleepers, buckets: Iterable[Bucket], turn: Pass) -> None:
        self._sleepers = sleepers
        self._turn = turn
        self._seen = 0
        self._number = count()
        self._later = last_first(buckets)
        self._heap: list[tuple[Order, int, Bucket | tuple[Barrier, int]]] = []

    def __iter__(self) -> Iterator[Entry]:
        """Yields each gang once if every gang drawn leaves its bucket. Call `next_of` for the next gang of a bucket."""
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
        """Queues the next gang of *bucket*, whose head has left."""
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
        """Computes full queue positions only when needed: computing them all first would take as long as many evaluations."""
        later, heap = self._later, self._heap
        while later and (not heap or later[-1][0] <= heap[0][0][:2]):
            self.next_of(later.pop()[1])

    def _push_first(self, barrier: Barrier, need: int) -> None:
        first = barrier.first(self._turn, need)
        if first is not None:
            heappush(self._heap, (first[0], next(self._number), (barrier, need)))

    def _wake(self, order: Order, barrier: Barrier, need: int) -> Bucket | None:
        """Wakes and returns the bucket filed at *order* at *barrier*; None if there is no room or another bucket is first now."""
        first = barrier.first(self._turn, need)
        if first is None or need > barrier.room():
            return None
        stands_at, _, bucket = first
        if stands_at == order:
            self._sleepers.wake(bucket)
        self._push_first(barrier, need)
        return bucket if stands_at == order else None


class HeadsByShare:
    """Like `QueueHeads`, for LOW that borrows in a tree with different weights: smallest share first.

    The share is what is borrowed when the head is drawn, so starting a gang moves the pools around it back.
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
        """See `QueueHeads.next_of`."""
        if bucket.waiting:
            heappush(self._queues[self._leaves[bucket.pool]], _placed(bucket.waiting[0]))


def low_heads(ledger: Ledger) -> QueueHeads:
    """Waiting LOW work in order, for the first of its two passes, in which gangs that would borrow are set aside.

    Wakes buckets whose pool's usage fell so that they would no longer borrow. If weights differ and any LOW bucket is awake,
    all are drawn: between equal shares, gangs that cannot start count too.
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
            deque(QueueHeads(sleepers, (), turn), maxlen=0)  # drains the iterator, which wakes the buckets
    low = [bucket for bucket in sleepers.awake if not bucket.firm]
    if low and ledger.tree.weighted:
        low = [bucket for bucket in ledger.pending.values() if not bucket.firm]
    return QueueHeads(sleepers, low, Pass.WITHIN)


def borrowing_heads(ledger: Ledger, buckets: Iterable[Bucket]) -> QueueHeads | HeadsByShare:
    """The gangs of *buckets*, which are LOW and would borrow, in the order of rule P4."""
    if ledger.tree.weighted:
        return HeadsByShare(ledger, buckets)
    return QueueHeads(ledger.sleepers, buckets, Pass.BORROWING)


def would_borrow(ledger: Ledger, entry: Entry) -> bool:
    """Whether the full gang would take its pool above nominal, with the pool's first flavor for it."""
    pool = ledger.tree.pools[entry.gang.pool]
    return any(amount > _left_of_nominal(pool, index) for index, amount in _first_request(ledger, entry))


def _first_request(ledger: Ledger, entry: Entry) -> Request:
    _, request = next(iter(options(ledger, entry, entry.bucket.counts)), ((), ()))
    return request


def _left_of_nominal(pool: QuotaNode, index: int) -> int:
    """How much more *pool* can use without borrowing."""
    return pool.subtree[index] + pool.drawn(index, CHARGED) - pool.usage[CHARGED][index]


def waiting_in_order(ledger: Ledger) -> list[Entry]:
    """All pending gangs in the order in which the next cycle evaluates them.

    Borrowing and shares are computed from the current state. Gangs that start in that cycle may still turn gangs behind them
    into borrowers or increase their share. O(n log n); for people, not for cycles.
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
"""Pools evaluated per step: about 2 ms for the first call."""


def ahead_of(ledger: Ledger, entry: Entry) -> Steps[tuple[int, int]]:
    """How many gangs the next cycle evaluates ahead of *entry*, which is waiting: (in all pools, in its own).

    Same order as `waiting_in_order`, without listing it. O(buckets of its rank × log gangs); for LOW that borrows with
    different weights, O(gangs ahead × log gangs).
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
        queue = ledger.ranks[mine.rank].by_pool[pool]  # a what-if run between two steps may have replaced it
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
    """How many of *queue*, LOW work of *pool*, are ahead of the LOW gang *entry*. *borrows*: whether *entry* would borrow."""
    left = _left_of_nominals(ledger, pool)
    some = False
    for index, least, most in _bounds(ledger, pool, queue):
        if least > left[index]:  # all would borrow
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
    """How many of *queue*, LOW work of *pool*, would not borrow. Adds the buckets of the others to *borrowing*."""
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
    """(index, minimum, maximum) of the first requests of the buckets of *queue*. Updates `Bucket.first`."""
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


def first_in(ledger: Ledger, pool: str, most: int) -> dict[str, Entry]:
    """The first *most* waiting gangs of *pool* by id, in the order of `ahead_of`. O(buckets of the pool + most × log buckets)."""
    queues = [(kind_of(ledger, bucket), bucket.waiting) for bucket in ledger.buckets_in(pool)]
    lines = ([(kind, entry.order, entry) for entry in waiting[:most]] for kind, waiting in queues)
    return {entry.gang.id: entry for *_, entry in islice(merge(*lines), most)}


def head_of(ledger: Ledger, pool: str) -> Entry | None:
    """The gang of *pool* that the next cycle evaluates first; None if none waits but those that a limit of their user stops
    (rule W6). O(its buckets).
    """
    heads = (each.waiting[0] for each in ledger.buckets_in(pool) if not ledger.user_holds_too_much(each))
    return min(heads, key=lambda entry: standing(ledger, entry), default=None)


Standing = tuple[tuple[int, bool], Order]
"""The sort key of a waiting gang among those of its pool (rule P4)."""


def standing(ledger: Ledger, entry: Entry) -> Standing:
    return kind_of(ledger, entry.bucket), entry.order


def kind_of(ledger: Ledger, bucket: Bucket) -> tuple[int, bool]:
    """The sort key of rule P4 without submission time; lower values come first. Equal for all gangs of a
    bucket.
    """
    return -bucket.rank, not bucket.firm and would_borrow(ledger, bucket.waiting[0])


def goes_by_share(ledger: Ledger, kind: tuple[int, bool]) -> bool:
    """Whether shares, not submission times, determine which pool comes first among gangs of this kind."""
    return kind[1] and ledger.tree.weighted


def _in_order_of_shares(ledger: Ledger, buckets: Iterable[Bucket]) -> Iterator[Entry]:
    """All gangs of *buckets*, in the order of current shares."""
    queues: dict[QuotaLeaf, list[tuple[Order, Entry]]] = {}
    for bucket in buckets:
        queues.setdefault(ledger.tree.low[bucket.pool], []).extend(map(_placed, bucket.waiting))
    for queue in queues.values():
        heapify(queue)
    return iter(Tournament(ledger.tree.root, queues, smallest_share))


def _placed(entry: Entry) -> tuple[Order, Entry]:
    return entry.order, entry
