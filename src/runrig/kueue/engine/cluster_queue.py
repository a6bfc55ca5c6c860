"""The state of a cluster queue: which workload is next, which are parked, and which use its quota.

Workloads with the same shape and priority get the same answer, so they wait, are parked and wake together, as one class.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator
from heapq import heapify, heappop, heappush, merge

from runrig.domain.pools import Queueing
from runrig.engine.quota.quota_node import QuotaLeaf, potential
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import ClusterQueue, StopPolicy
from runrig.kueue.engine.workload import QueueKey, TargetKey, WorkloadShape, WorkloadState

STOPPED = "Stopped"
FLAVOR_NOT_FOUND = "FlavorNotFound"

EquivalenceKey = tuple[WorkloadShape, int]
HolderEntry = tuple[TargetKey, WorkloadState]
Holding = dict[frozenset[int], list[HolderEntry]]


class EquivalenceClass:
    """Waiting workloads with one shape and priority, as a heap. *pending_reason*: why they are parked."""

    __slots__ = ("key", "parked", "pending_reason", "waiting")

    def __init__(self, key: EquivalenceKey) -> None:
        self.key = key
        self.waiting: list[tuple[QueueKey, WorkloadState]] = []
        self.parked = False
        self.pending_reason: PendingReason | None = None


class QueueState:
    """A cluster queue. *first*: the preemptor that is served before all others until it gets its quota (rule R5).

    *preemptor*: the last workload that had to wait for targets, until it gets its quota. With rule R5 it is *first*; without
    it, only if the queue is not strict.
    *running*, *leaving*: holders of quota, by the indices of their grants, in the order of candidates; leaving ones were asked
    to stop.
    *closed*: why nothing new starts; "" if it is open. *missing*: the first of its flavors that is not defined. Running
    workloads of a closed queue are not preempted for others.
    *potential*: by index, the most that can ever fit. *generation*: increases whenever a holder leaves.
    *in_line*: the open queues that may have workloads in line, by name; shared by all queues.
    """

    def __init__(
        self, spec: ClusterQueue, leaf: QuotaLeaf, in_line: dict[str, "QueueState"], defined: Container[str] = ()
    ) -> None:
        """*defined*: the defined flavors; empty: all flavors that a queue names are assumed to exist."""
        self.spec = spec
        self.leaf = leaf
        self.in_line = in_line
        self.strict = spec.queueing is Queueing.STRICT_FIFO
        named = (flavor for group in spec.groups for flavor in group.flavors)
        self.missing = next((flavor for flavor in named if flavor not in defined), "") if defined else ""
        self.closed = STOPPED if spec.stop is not StopPolicy.NONE else FLAVOR_NOT_FOUND if self.missing else spec.closed
        self.open = not self.closed
        self.first: WorkloadState | None = None
        self.preemptor: WorkloadState | None = None
        self.running: Holding = {}
        self.leaving: Holding = {}
        self.generation = 0
        self.potential = [potential(leaf, index) if leaf.active else 0 for index in range(len(leaf.nominal))]
        self._first_waits = False
        self._active: dict[EquivalenceKey, EquivalenceClass] = {}
        self._parked: list[EquivalenceClass] = []
        self._alike: dict[EquivalenceKey, EquivalenceClass] = {}
        self._heads: list[tuple[QueueKey, int, EquivalenceClass]] = []
        self._pushed = 0

    # ------------------------------------------------------------ waiting

    def arrive(self, workload: WorkloadState) -> None:
        """Adds a new *workload* to the line, or parks it with equivalent ones that were just refused.

        If it is ahead of them it is not parked: it may preempt workloads that are newer than itself but older than they
        are.
        """
        equivalents = self._alike.get((workload.shape, workload.spec.priority))
        if equivalents is None or workload.key < equivalents.waiting[0][0]:
            self.add(workload)
        else:
            heappush(equivalents.waiting, (workload.key, workload))

    def add(self, workload: WorkloadState) -> None:
        """Puts *workload* in line."""
        if self._is_first(workload):
            return
        key = (workload.shape, workload.spec.priority)
        equivalents = self._active.get(key)
        if equivalents is None:
            equivalents = self._active[key] = EquivalenceClass(key)
        heappush(equivalents.waiting, (workload.key, workload))
        if equivalents.waiting[0][1] is workload:
            self._enter(equivalents)

    def pop(self) -> WorkloadState | None:
        """Removes and returns the next workload; None if all are parked or none waits."""
        if self._first_waits:
            self._first_waits = False
            return self.first
        while self._heads:
            key, _, equivalents = heappop(self._heads)
            waiting = equivalents.waiting
            if equivalents.parked or not waiting or waiting[0][0] != key:
                continue  # outdated entry: the class has moved since
            _, workload = heappop(waiting)
            if waiting:
                self._enter(equivalents)
            else:
                del self._active[equivalents.key]
            return workload
        self.in_line.pop(self.spec.name, None)
        return None

    def head(self) -> WorkloadState | None:
        """The workload that would be next, parked or not. O(classes)."""
        if self._first_waits:
            return self.first
        classes = (*self._active.values(), *self._parked)
        return min((equivalents.waiting[0] for equivalents in classes if equivalents.waiting), default=(None, None))[1]

    def _enter(self, equivalents: EquivalenceClass) -> None:
        """Adds *equivalents* to the heads with its first workload; outdated entries are skipped later."""
        self._pushed += 1
        heappush(self._heads, (equivalents.waiting[0][0], self._pushed, equivalents))
        self._note_line()

    def park(self, workload: WorkloadState, *, alike_too: bool) -> None:
        """Parks *workload* until something changes. *alike_too*: together with its equivalents."""
        key = (workload.shape, workload.spec.priority)
        equivalents = self._active.pop(key, None) if alike_too else None
        if equivalents is None:
            equivalents = EquivalenceClass(key)
        heappush(equivalents.waiting, (workload.key, workload))
        equivalents.parked, equivalents.pending_reason = True, workload.pending_reason
        self._parked.append(equivalents)
        if alike_too:
            self._alike[key] = equivalents

    def wake(self) -> None:
        """Puts all parked workloads back in line."""
        for equivalents in self._parked:
            equivalents.parked = False
            # Entries in the heads that still name this class are outdated.
            entries, equivalents.waiting = equivalents.waiting, []
            if self.first is not None:
                entries = [entry for entry in entries if not self._is_first(entry[1])]
                heapify(entries)
            if not entries:
                continue
            into = self._active.setdefault(equivalents.key, equivalents)
            if len(into.waiting) < len(entries):
                into.waiting, entries = entries, into.waiting
            for entry in entries:
                heappush(into.waiting, entry)
            self._enter(into)
        self._parked.clear()
        self._alike.clear()

    def _is_first(self, workload: WorkloadState) -> bool:
        if workload is self.first:
            self._first_waits = True
            self._note_line()
            return True
        return False

    def _note_line(self) -> None:
        if self.open:
            self.in_line[self.spec.name] = self

    def let_first(self, workload: WorkloadState | None) -> None:
        """Makes *workload*, which is not in line, the first to be served; its predecessor returns to the line."""
        before, self.first = self.first, workload
        if before is not None and before is not workload and self._first_waits:
            self._first_waits = False
            self.add(before)

    def preempts(self, workload: WorkloadState, *, always: bool) -> None:
        """*workload*, which is not in line, now waits for targets. *always*: it is first even in a strict queue (rule R5)."""
        self.preemptor = workload
        if always or not self.strict:
            self.let_first(workload)

    def waiting(self) -> Iterator[tuple[WorkloadState, EquivalenceClass | None]]:
        """Yields all waiting workloads, unordered, each with the class in which it is parked; None: not parked."""
        if self._first_waits and self.first is not None:
            yield self.first, None
        for equivalents in self._active.values():
            yield from ((workload, None) for _, workload in equivalents.waiting)
        for equivalents in self._parked:
            yield from ((workload, equivalents) for _, workload in equivalents.waiting)

    # ------------------------------------------------------------ holding quota

    def hold(self, workload: WorkloadState) -> None:
        """Adds *workload* to the holders of quota. Its `target_key` does not change while it is one."""
        minus_priority, _, uid, name = workload.key
        workload.target_key = (-minus_priority, -workload.reserved_at, uid, name)
        self.put_back(workload)

    @staticmethod
    def _enter_among(holding: Holding, workload: WorkloadState) -> None:
        insort(holding.setdefault(workload.indices, []), (workload.target_key, workload))

    def set_aside(self, workload: WorkloadState) -> None:
        """Removes *workload*, which uses quota, from the candidates for the rest of the cycle."""
        alike = (self.leaving if workload.evicted else self.running)[workload.indices]
        # Candidates are tried in this order, so it is usually the first.
        at = 0 if alike[0][1] is workload else bisect_left(alike, (workload.target_key,))
        assert alike[at][1] is workload, f"{workload.spec.name} is not where it should be"
        del alike[at]

    def put_back(self, workload: WorkloadState) -> None:
        """The inverse of `set_aside`."""
        self._enter_among(self.leaving if workload.evicted else self.running, workload)

    def mark_evicted(self, workload: WorkloadState) -> None:
        """Moves *workload*, which was set aside, to *leaving*."""
        workload.evicted = True
        self.put_back(workload)

    def let_go(self, workload: WorkloadState) -> None:
        """Removes *workload* from the holders of quota."""
        self.set_aside(workload)
        workload.evicted = False
        self.generation += 1

    def granted(self, contested: frozenset[int], *, leaving: bool) -> Iterable[HolderEntry]:
        """The holders that were granted something *contested*, in the order of candidates.

        Iterate only once, before holders change.
        """
        holding = self.leaving if leaving else self.running
        found = [alike for indices, alike in holding.items() if alike and not contested.isdisjoint(indices)]
        return merge(*found) if len(found) > 1 else found[0] if found else ()
