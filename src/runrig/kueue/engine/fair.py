"""Fair preemption: the queue with the highest share is preempted first (weights: rule Q2).

From the root down, the child with the highest share is next. Its first candidate is preempted if the preemptor's share,
including its request, stays below the target's: its remaining or its current share, depending on the strategy. Shares
are compared just below the common cohort. Preempting a workload of its own queue lowers the preemptor's share, so
skipped candidates are tried once more. Finally, targets that turn out not to be needed are dropped. Edits the trees
temporarily and always restores them.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import chain

from runrig.domain.kueue import Strategy
from runrig.engine.preemption.fill_back import take_until_fits
from runrig.engine.quota.quota_node import CHARGED, NodeKind, QuotaNode, add_on_trial, take_on_trial
from runrig.engine.quota.share import Amount
from runrig.kueue.decisions import PreemptionReason
from runrig.kueue.declared import Policy
from runrig.kueue.engine.candidates import CandidateSearch
from runrig.kueue.engine.cluster_queue import QueueState
from runrig.kueue.engine.workload import TargetKey, WorkloadState, WorkloadTarget


class FairSearch(CandidateSearch):
    def __post_init__(self) -> None:
        super().__post_init__()
        self._failed: list[WorkloadState] = []
        self._took_own = False
        self._reclaim = self.queue.spec.policies.reclaim
        self._touched: dict[QuotaNode, Amount | None] = {}

    def run(self) -> list[WorkloadTarget]:
        """The targets. While they are chosen, the request counts at the preemptor's leaf, because its share includes it."""
        add_on_trial(self.leaf, self.request, CHARGED)
        self._touch(self.leaf)
        taken = take_until_fits(self._in_order(), self.take, self.put_back, self._fits_beside_itself)
        take_on_trial(self.leaf, self.request, CHARGED)
        return self.needed(taken, self.fits)

    def _in_order(self) -> Iterator[WorkloadTarget]:
        """Yields candidates of the first strategy, again after some of the own queue were taken, then those of the second strategy."""
        strategies = self.context.strategies
        assert strategies
        yield from self._first_pass(strategies[0], _Lazily(self.candidates_of))
        if self._took_own:
            yield from self._first_pass(strategies[0], self._spared())
        if len(strategies) > 1:
            yield from self._second_pass()

    def _first_pass(self, strategy: Strategy, candidates: "_Lazily") -> Iterator[WorkloadTarget]:
        order = _Order(self, candidates)
        entitled = self._within_nominal()
        while (queue := order.next_queue()) is not None:
            if queue is self.queue:
                self._took_own = True
                yield self._target(order.pop(queue), PreemptionReason.IN_QUEUE)
            elif entitled:
                yield self._target(order.pop(queue), PreemptionReason.RECLAIM)
            else:
                candidate = self._first_let_go(order, queue, strategy)
                if candidate is not None:
                    yield self._target(candidate, PreemptionReason.FAIR_SHARING)
            order.refresh(queue.leaf)

    def _first_let_go(self, order: "_Order", queue: QueueState, strategy: Strategy) -> WorkloadState | None:
        """The first candidate of *queue* that the strategy allows; candidates before it are tried again in the next
        pass.
        """
        mine, its = _below_common(self.leaf, queue.leaf)
        preemptor, before = self.share(mine), self.share(its)
        while order.has(queue):
            candidate = order.pop(queue)
            if self._lets_go(strategy, preemptor, before, its, candidate):
                return candidate
            self._failed.append(candidate)
        return None

    def _spared(self) -> "_Lazily":
        """The candidates that previous passes did not take."""
        failed: dict[str, list[WorkloadState]] = {}
        for workload in self._failed:
            failed.setdefault(workload.queue, []).append(workload)
        self._failed = []
        return _Lazily(lambda queue: iter(failed.get(queue, ())))

    def _lets_go(
        self, strategy: Strategy, preemptor: Amount, before: Amount, its: QuotaNode, candidate: WorkloadState
    ) -> bool:
        if strategy is Strategy.INITIAL_SHARE:
            return preemptor < before
        take_on_trial(candidate.leaf, candidate.request, CHARGED)
        after = self.context.shares.of(its)
        add_on_trial(candidate.leaf, candidate.request, CHARGED)
        return preemptor <= after

    def _second_pass(self) -> Iterator[WorkloadTarget]:
        """Yields one skipped candidate of each queue whose share is now above the preemptor's."""
        order = _Order(self, self._spared())
        while (queue := order.next_queue()) is not None:
            mine, its = _below_common(self.leaf, queue.leaf)
            candidate = order.pop(queue)
            order.drop(queue)
            if self.share(mine) < self.share(its):
                yield self._target(candidate, PreemptionReason.FAIR_SHARING)
            order.refresh(queue.leaf)

    def _target(self, candidate: WorkloadState, reason: PreemptionReason) -> WorkloadTarget:
        """The target for *candidate*, which is taken next; invalidates the shares above it."""
        self._touch(candidate.leaf)
        return WorkloadTarget(candidate, reason)

    def _fits_beside_itself(self) -> bool:
        """`fits`, while the request is already counted."""
        take_on_trial(self.leaf, self.request, CHARGED)
        fitted = self.fits()
        add_on_trial(self.leaf, self.request, CHARGED)
        return fitted

    def _within_nominal(self) -> bool:
        """Whether the preemptor's queue, including its request, is within nominal for everything contested."""
        usage, nominal = self.leaf.usage[CHARGED], self.leaf.nominal
        return self.context.gates["FairSharingPreemptWithinNominal"] and all(
            usage[index] <= nominal[index] for index in self.contested
        )

    def _touch(self, leaf: QuotaNode) -> None:
        self._touched.update((node, None) for node in leaf.path)

    def share(self, node: QuotaNode) -> Amount:
        """The share of *node* without the targets taken; cached until something below it changes."""
        if node not in self._touched:
            return self.context.share(node)
        known = self._touched[node]
        if known is None:
            known = self._touched[node] = self.context.shares.of(node)
        return known

    def candidates_of(self, name: str) -> Iterator[WorkloadState]:
        """Candidates of the queue *name*, in order; of another queue only if it is open and over nominal for something
        contested.

        Call it before anything of that queue is taken.
        """
        queue = self.context.queues[name]
        if queue is self.queue:
            return chain(self.own(leaving=True), self.own(leaving=False))
        if self._reclaim is Policy.NEVER or not queue.open or not queue.leaf.over_nominal(self.contested):
            return iter(())
        return chain(
            *(self.allowed(queue.granted(self.contested, leaving=leaving), self._reclaim) for leaving in (True, False))
        )


class _Lazily:
    """Candidates by queue. Reads each iterator only as far as needed."""

    def __init__(self, candidates_of: Callable[[str], Iterator[WorkloadState]]) -> None:
        self._of = candidates_of
        self._rest: dict[str, Iterator[WorkloadState]] = {}
        self._first: dict[str, WorkloadState | None] = {}

    def first(self, queue: str) -> WorkloadState | None:
        """The next candidate of *queue*; None if none is left."""
        if queue not in self._first:
            self._rest[queue] = self._of(queue)
            self._first[queue] = next(self._rest[queue], None)
        return self._first[queue]

    def pop(self, queue: str) -> WorkloadState:
        workload = self.first(queue)
        assert workload is not None
        self._first[queue] = next(self._rest[queue], None)
        return workload


BorrowerKey = tuple[Amount, bool, bool, TargetKey]
"""Order of queues: highest share first (negated), then by first candidate: already stopping, not of the own queue, its key."""

CohortKey = tuple[Amount, int]
"""Order of cohorts: highest share first (negated), then the last child (negated index)."""


class _Order:
    """Which queue is next. Queues and cohorts without candidates, or that no longer borrow, are removed permanently.

    Each cohort keeps its children in two heaps; call `refresh` when a share or the candidates of a queue have changed.
    """

    def __init__(self, search: FairSearch, candidates: _Lazily) -> None:
        self._search = search
        self._candidates = candidates
        self._mine = set(search.preemptor.leaf.path)
        self._top = search.preemptor.leaf.path[-1]
        self._out: set[QuotaNode] = set()
        self._stamps: dict[QuotaNode, int] = {}
        self._queues: dict[QuotaNode, list[tuple[BorrowerKey, int, QueueState]]] = {}
        self._cohorts: dict[QuotaNode, list[tuple[CohortKey, int, QuotaNode]]] = {}

    def next_queue(self) -> QueueState | None:
        """The next queue; None if none has candidates left."""
        if self._top.kind is NodeKind.QUEUE:
            return self._search.queue if self.has(self._search.queue) else None
        while self._top not in self._out:
            found = self._next_under(self._top)
            if found is not None:
                return found
        return None

    def has(self, queue: QueueState) -> bool:
        return self._candidates.first(queue.spec.name) is not None

    def pop(self, queue: QueueState) -> WorkloadState:
        return self._candidates.pop(queue.spec.name)

    def drop(self, queue: QueueState) -> None:
        self._out.add(queue.leaf)

    def refresh(self, leaf: QuotaNode) -> None:
        """A candidate of the queue at *leaf* was popped or taken."""
        for node in leaf.path:
            if node.parent in self._queues:
                self._enter(node)

    def _next_under(self, cohort: QuotaNode) -> QueueState | None:
        if cohort not in self._queues:
            self._queues[cohort], self._cohorts[cohort] = [], []
            for node in cohort.children:
                self._enter(node)
        queues, inner = self._queues[cohort], self._cohorts[cohort]
        while queues and self._stamps[queues[0][2].leaf] != queues[0][1]:
            heappop(queues)
        while inner and self._stamps[inner[0][2]] != inner[0][1]:
            heappop(inner)
        if inner and (not queues or inner[0][0][0] <= queues[0][0][0]):
            return self._next_under(inner[0][2])
        if queues:
            return queues[0][2]
        self._out.add(cohort)
        if cohort.parent is not None:
            self._enter(cohort)
        return None

    def _enter(self, node: QuotaNode) -> None:
        """Moves *node* to its new position among its siblings."""
        assert node.parent is not None
        stamp = self._stamps[node] = self._stamps.get(node, 0) + 1
        if node in self._out or (node not in self._mine and not _borrows(node)):
            return
        infinite, amount = self._search.share(node)
        if node.kind is NodeKind.COHORT:
            position = node.parent.children.index(node)
            heappush(self._cohorts[node.parent], (((-infinite, -amount), -position), stamp, node))
            return
        queue = self._search.context.queues[node.name]
        first = self._candidates.first(node.name)
        if first is not None:
            key = ((-infinite, -amount), not first.evicted, queue is self._search.queue, first.target_key)
            heappush(self._queues[node.parent], (key, stamp, queue))


def _borrows(node: QuotaNode) -> bool:
    usage, subtree = node.usage[CHARGED], node.subtree
    return any(used > brought for used, brought in zip(usage, subtree, strict=True))


def _below_common(mine: QuotaNode, its: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """The ancestors of two leaves just below their lowest common cohort: of *mine*, then of *its*."""
    above = list(mine.path)
    at = next(position for position, node in enumerate(its.path) if node in above)
    return above[above.index(its.path[at]) - 1], its.path[at - 1]
