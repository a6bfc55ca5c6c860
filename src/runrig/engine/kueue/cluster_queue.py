"""The line in front of a cluster queue: who is next, who is parked, and who holds its quota.

Workloads of one shape and priority get the same answer, so they wait, park and wake together, in one lot.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from runrig.domain.kueue import ClusterQueue, PendingReason, StopPolicy
from runrig.domain.pools import Queueing
from runrig.engine.kueue.workload import QueueKey, TargetKey, WorkloadShape, WorkloadState
from runrig.engine.quota.quota_node import QuotaLeaf, potential

EquivalenceKey = tuple[WorkloadShape, int]


class EquivalenceClass:
    """Waiting workloads of one shape and priority, as a heap.  *word*: why they are parked."""

    __slots__ = ("key", "parked", "waiting", "word")

    def __init__(self, key: EquivalenceKey) -> None:
        self.key = key
        self.waiting: list[tuple[QueueKey, WorkloadState]] = []
        self.parked = False
        self.word: PendingReason | None = None


class QueueState:
    """*first*: the preemptor that is served before everybody else until it has its quota (law R5).

    *running*, *leaving*: who holds quota of this queue, in the order in which candidates are tried; leaving ones are told to stop.
    *potential*: per index, the most that can ever fit.  *generation*: grows when something of the queue goes or its quota changes.
    """

    def __init__(self, queue: ClusterQueue, leaf: QuotaLeaf) -> None:
        self.queue = queue
        self.leaf = leaf
        self.strict = queue.queueing is Queueing.STRICT_FIFO
        self.open = queue.stop is StopPolicy.NONE
        self.first: WorkloadState | None = None
        self.running: list[tuple[TargetKey, WorkloadState]] = []
        self.leaving: list[tuple[TargetKey, WorkloadState]] = []
        self.generation = 0
        self.potential = [potential(leaf, index) if leaf.active else 0 for index in range(len(leaf.nominal))]
        self._first_waits = False
        self._active: dict[EquivalenceKey, EquivalenceClass] = {}
        self._parked: list[EquivalenceClass] = []
        self._alike: dict[EquivalenceKey, EquivalenceClass] = {}
        self._heads: list[tuple[QueueKey, int, EquivalenceClass]] = []
        self._pushed = 0

    # ------------------------------------------------------------ waiting

    def arrive(self, item: WorkloadState) -> None:
        """*item* is new here: it waits its turn, or is parked behind those that just got the answer that it would get.

        One that comes before them may get another: it may take work that is newer than itself, and older than they are.
        """
        lot = self._alike.get((item.shape, item.workload.priority))
        if lot is None or item.key < lot.waiting[0][0]:
            self.add(item)
        else:
            heappush(lot.waiting, (item.key, item))

    def add(self, item: WorkloadState) -> None:
        """*item* waits its turn."""
        if item is self.first:
            self._first_waits = True
            return
        key = (item.shape, item.workload.priority)
        lot = self._active.get(key)
        if lot is None:
            lot = self._active[key] = EquivalenceClass(key)
        heappush(lot.waiting, (item.key, item))
        if lot.waiting[0][1] is item:
            self._enter(lot)

    def pop(self) -> WorkloadState | None:
        """Takes out the next one; None if nobody waits, or all are parked."""
        if self._first_waits:
            self._first_waits = False
            return self.first
        while self._heads:
            key, _, lot = heappop(self._heads)
            if lot.parked or not lot.waiting or lot.waiting[0][0] != key:
                continue  # it has moved on since
            _, item = heappop(lot.waiting)
            if lot.waiting:
                self._enter(lot)
            else:
                del self._active[lot.key]
            return item
        return None

    def head(self) -> WorkloadState | None:
        """Who would be next, parked or not.  O(lots)."""
        if self._first_waits:
            return self.first
        lots = (*self._active.values(), *self._parked)
        return min((lot.waiting[0] for lot in lots if lot.waiting), default=(None, None))[1]

    def _enter(self, lot: EquivalenceClass) -> None:
        """The first of *lot* stands for it among the heads; entries of its that are no longer true are passed over later."""
        self._pushed += 1
        heappush(self._heads, (lot.waiting[0][0], self._pushed, lot))

    def park(self, item: WorkloadState, *, alike_too: bool) -> None:
        """*item* waits until something changes; *alike_too*: and with it those that would get the same answer."""
        key = (item.shape, item.workload.priority)
        lot = self._active.pop(key, None) if alike_too else None
        if lot is None:
            lot = EquivalenceClass(key)
        heappush(lot.waiting, (item.key, item))
        lot.parked, lot.word = True, item.word
        self._parked.append(lot)
        if alike_too:
            self._alike[key] = lot

    def wake(self) -> None:
        """Everything parked is looked at again."""
        for lot in self._parked:
            lot.parked = False
            entries, lot.waiting = (
                lot.waiting,
                [],
            )  # an entry among the heads that still names this lot is not true any more
            if self.first is not None:
                entries = [entry for entry in entries if not self._is_first(entry[1])]
                heapify(entries)
            if not entries:
                continue
            into = self._active.setdefault(lot.key, lot)
            if len(into.waiting) < len(entries):
                into.waiting, entries = entries, into.waiting
            for entry in entries:
                heappush(into.waiting, entry)
            self._enter(into)
        self._parked.clear()
        self._alike.clear()

    def _is_first(self, item: WorkloadState) -> bool:
        if item is self.first:
            self._first_waits = True
            return True
        return False

    def let_first(self, item: WorkloadState | None) -> None:
        """*item* is served before everybody else from now on; whoever was so before waits in order.  *item* is out of the line."""
        before, self.first = self.first, item
        if before is not None and before is not item and self._first_waits:
            self._first_waits = False
            self.add(before)

    def waiting(self) -> Iterator[tuple[WorkloadState, EquivalenceClass | None]]:
        """All that wait, each with the lot that it is parked in, None if it is not; in no order."""
        if self._first_waits and self.first is not None:
            yield self.first, None
        for lot in self._active.values():
            yield from ((item, None) for _, item in lot.waiting)
        for lot in self._parked:
            yield from ((item, lot) for _, item in lot.waiting)

    # ------------------------------------------------------------ holding quota

    def hold(self, item: WorkloadState) -> None:
        """*item* holds quota; its `target_key` must not change while it does."""
        insort(self.leaving if item.evicted else self.running, (item.target_key, item))

    def set_aside(self, item: WorkloadState) -> None:
        """*item*, which holds quota, is no candidate for the rest of the cycle."""
        self._drop(self.leaving if item.evicted else self.running, item)

    def told_to_stop(self, item: WorkloadState) -> None:
        """*item*, which was set aside, is one of *leaving* from now on."""
        item.evicted = True
        insort(self.leaving, (item.target_key, item))

    def let_go(self, item: WorkloadState) -> None:
        """*item* holds no quota any more."""
        self._drop(self.leaving if item.evicted else self.running, item)
        item.evicted = False
        self.generation += 1

    @staticmethod
    def _drop(holding: list[tuple[TargetKey, WorkloadState]], item: WorkloadState) -> None:
        at = bisect_left(holding, (item.target_key,))
        assert holding[at][1] is item, f"{item.workload.name} is not where it should be"
        del holding[at]
