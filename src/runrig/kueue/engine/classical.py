"""Classical preemption: which workloads stop so that another can start, by quota and priority (rules R2, R3).

Workloads of other queues are preempted if a subtree above the preemptor has room for the request in its own quota (it
reclaims), otherwise by priority, with or without borrowing. Edits the trees temporarily and always restores them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from runrig.engine.quota.quota_node import CHARGED, QuotaNode, Request
from runrig.kueue.decisions import PreemptionReason
from runrig.kueue.declared import Policy
from runrig.kueue.engine.candidates import CandidateSearch
from runrig.kueue.engine.cluster_queue import HolderEntry
from runrig.kueue.engine.scheduler_context import Holders
from runrig.kueue.engine.sums import Sums
from runrig.kueue.engine.workload import WorkloadState, WorkloadTarget


class ClassicalSearch(CandidateSearch):
    def __post_init__(self) -> None:
        super().__post_init__()
        self._reclaim = self.queue.spec.policies.reclaim
        self._others = self._reached() if self._reclaim is not Policy.NEVER else {}
        self._between: dict[QuotaNode, tuple[QuotaNode, ...]] = {}
        self._sums = Sums(self.leaf, self.request, self.contested) if self.counts else None
        self._asked = self.contested.union(index for index, _ in self.request)

    def run(self) -> Sequence[WorkloadTarget]:
        """The targets; empty if no legal set does."""
        return next(filter(None, (self.attempt(borrow=borrow) for borrow in self.attempts())), ())

    def _reached(self) -> dict[tuple[bool, bool], Iterable[HolderEntry]]:
        """Holders in other queues over nominal, by whether the preemptor is entitled to their quota, and whether they are
        stopping.

        It is entitled if some node of its path below the common cohort has room for the request in its own quota.
        """
        reached: dict[tuple[bool, bool], Iterable[HolderEntry]] = {}
        unentitled: dict[bool, list[Iterable[HolderEntry]]] = {}
        left = self.request
        for below, node in pairwise(self.leaf.path):
            usage, subtree = below.usage[CHARGED], below.subtree
            for index, amount in left:
                if usage[index] + amount > subtree[index]:
                    break
            else:
                for leaving in self.rounds:
                    source = self.context.reach_beyond(below, self.contested, leaving=leaving)
                    if source is not None:
                        reached[True, leaving] = source
                break
            for leaving in self.rounds:
                source = self.context.reach(node, below, self.contested, leaving=leaving)
                if source is not None:
                    unentitled.setdefault(leaving, []).append(source)
            left = _left_for_parent(below, left)
        for leaving, sources in unentitled.items():
            reached[False, leaving] = Holders(sources) if len(sources) > 1 else sources[0]
        return reached

    def attempts(self) -> Sequence[bool]:
        """Values of *borrow* to try, in order: whether the preemptor may borrow."""
        forbidden = self.queue.spec.policies.borrow is Policy.NEVER
        entitled = self._finds(entitled=True)
        if not entitled and not self._finds(entitled=False):
            return (True,)
        if forbidden:
            usage, nominal = self.leaf.usage[CHARGED], self.leaf.nominal
            if not all(usage[index] < nominal[index] for index in self.contested):
                return (True,)
            if not entitled:
                return (False, True)
        return (True, False)

    def _finds(self, *, entitled: bool) -> bool:
        return any(True for leaving in self.rounds for _ in self._from_others(entitled=entitled, leaving=leaving))

    def _from_others(self, *, entitled: bool, leaving: bool) -> Iterator[WorkloadState]:
        """Candidates of other queues to whose quota the preemptor is, or is not, *entitled*."""
        over = self._over if self._sums is None else self._sums.over
        entries = self._others.get((entitled, leaving), ())
        anybody = self._reclaim is Policy.ANY and not self.safe
        candidates = map(itemgetter(1), entries) if anybody else self.allowed(entries, self._reclaim)
        return (candidate for candidate in candidates if over(candidate.leaf))

    def _over(self, leaf: QuotaNode) -> bool:
        """Like `Sums.over`, without the targets taken."""
        between = self._between.get(leaf)
        if between is None:
            common = next(at for at, node in enumerate(leaf.path) if node in self.leaf.path)
            between = self._between[leaf] = leaf.path[:common]
        contested = self.contested
        for node in between:  # noqa: SIM110  (a loop: this is asked for every candidate)
            if not node.over_nominal(contested):
                return False
        return True

    def attempt(self, *, borrow: bool) -> list[WorkloadTarget]:
        """The targets of one attempt; empty if it fails."""
        sequence = self._sequence(borrow=borrow)
        if self._sums is not None:
            return self._sums.targets(sequence, within_nominal=not borrow)
        return self.targets(sequence, self.fits if borrow else self._fits_within_nominal)

    def _sequence(self, *, borrow: bool) -> Iterator[WorkloadTarget]:
        reclaimed = PreemptionReason.RECLAIM
        for leaving in self.rounds:
            for candidate in self._from_others(entitled=True, leaving=leaving):
                yield WorkloadTarget(candidate, reclaimed)
            for candidate in self._from_others(entitled=False, leaving=leaving):
                while_borrowing = self._below_threshold(candidate)
                if while_borrowing or not borrow:
                    yield WorkloadTarget(
                        candidate,
                        PreemptionReason.RECLAIM_WHILE_BORROWING if while_borrowing else reclaimed,
                    )
            for candidate in self.own(leaving=leaving):
                yield WorkloadTarget(candidate, PreemptionReason.IN_QUEUE)

    def _below_threshold(self, candidate: WorkloadState) -> bool:
        """Whether it can be preempted although the preemptor ends up borrowing."""
        policies, priority = self.queue.spec.policies, candidate.spec.priority
        return (
            policies.borrow is not Policy.NEVER
            and priority < self.preemptor.spec.priority
            and (policies.borrow_max_priority is None or priority <= policies.borrow_max_priority)
        )

    def held(self, workload: WorkloadState) -> Request:
        """Only the indices that this search needs."""
        return tuple([each for each in workload.request if each[0] in self._asked])

    def _fits_within_nominal(self) -> bool:
        usage, nominal = self.leaf.usage[CHARGED], self.leaf.nominal
        return all(usage[index] + amount <= nominal[index] for index, amount in self.request) and self.fits()


def _left_for_parent(node: QuotaNode, request: Request) -> Request:
    """The part of *request* that exceeds the local quota of *node*."""
    local, usage = node.local, node.usage[CHARGED]
    if not any(local):
        return request
    return tuple([(index, max(0, amount - max(0, local[index] - usage[index]))) for index, amount in request])
