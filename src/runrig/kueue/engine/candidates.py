"""Candidates for preemption: which workloads can be taken, and in which order.

Workloads that are already stopping come first; then lower priority, later start, uid, name. Classical and fair preemption share
`CandidateSearch`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from runrig.engine.preemption.fill_back import fill_back, take_until_fits
from runrig.engine.quota.quota_node import CHARGED, Request, add_on_trial, fits, take_on_trial
from runrig.kueue.declared import Policy
from runrig.kueue.engine.cluster_queue import HolderEntry, QueueState
from runrig.kueue.engine.node_tree import release, reserve
from runrig.kueue.engine.scheduler_context import SchedulerContext
from runrig.kueue.engine.sums import left_in_tree, needed
from runrig.kueue.engine.workload import WorkloadState, WorkloadTarget
from runrig.kueue.engine.workload_placement import FindsPlacement


def allows(policy: Policy, preemptor: WorkloadState, candidate: WorkloadState) -> bool:
    """Whether *policy* lets *preemptor* preempt *candidate*."""
    mine, its = preemptor.spec.priority, candidate.spec.priority
    match policy:
        case Policy.NEVER:
            return False
        case Policy.ANY:
            return True
        case Policy.LOWER:
            return its < mine
        case Policy.LOWER_OR_NEWER:
            return its < mine or (its == mine and candidate.spec.queued_at > preemptor.spec.queued_at)


def nobody(queue: QueueState, preemptor: WorkloadState, contested: Collection[int]) -> bool:
    """Whether there is certainly no candidate. Cheap: reads only counters and the first holders."""
    policies = queue.spec.policies
    if policies.reclaim is not Policy.NEVER:
        over = queue.leaf.path[-1].pools_over_nominal
        for index in contested:
            if over[index]:
                return False
    if policies.within_queue is Policy.NEVER:
        return True
    mine = preemptor.spec.priority
    for holding in (queue.running, queue.leaving):
        for alike in holding.values():
            if alike:
                lowest = alike[0][0][0]
                if lowest < mine or (lowest == mine and policies.within_queue is not Policy.LOWER):
                    return False
    return True


@dataclass(eq=False)
class CandidateSearch:
    """The search for one preemptor. *safe*: names of workloads that evicted it, directly or indirectly (rule R5).

    *finds_placement* None: only quota matters. Otherwise its pods also need nodes, and targets free theirs.
    *rounds*: values of *leaving* to try: workloads that are already stopping come first, if there are any.
    *counts*: `sums.py` is enough for this search.
    """

    context: SchedulerContext
    preemptor: WorkloadState
    request: Request
    contested: frozenset[int]
    finds_placement: FindsPlacement | None

    def __post_init__(self) -> None:
        context, preemptor = self.context, self.preemptor
        self.queue = context.queues[preemptor.queue]
        self.leaf = preemptor.leaf
        self.safe = context.evicted_by.safe_from(preemptor.spec.name)
        self.rounds = (True, False) if context.stopping else (False,)
        self.counts = self.finds_placement is None and context.plain(self.leaf, self.request)

    def allowed(self, entries: Iterable[HolderEntry], policy: Policy) -> Iterator[WorkloadState]:
        """The *entries* that the policy allows and rule R5 does not protect."""
        safe, anybody = self.safe, policy is Policy.ANY
        highest = self.preemptor.spec.priority
        for (priority, _, _, name), candidate in entries:
            if priority > highest and not anybody:
                return
            if name not in safe and (anybody or allows(policy, self.preemptor, candidate)):
                yield candidate

    def own(self, *, leaving: bool) -> Iterator[WorkloadState]:
        """Candidates in the preemptor's own queue."""
        queue, policy = self.queue, self.queue.spec.policies.within_queue
        if policy is Policy.NEVER:
            return iter(())
        return self.allowed(queue.granted(self.contested, leaving=leaving), policy)

    def targets(self, candidates: Iterable[WorkloadTarget], fits: Callable[[], bool]) -> list[WorkloadTarget]:
        """The minimal set of *candidates* to stop so that the request fits; empty if it never does. Restores the trees."""
        return self.needed(take_until_fits(candidates, self.take, self.put_back, fits), fits)

    def needed(self, taken: Sequence[WorkloadTarget] | None, fits: Callable[[], bool]) -> list[WorkloadTarget]:
        """The targets among *taken* that must stop; empty for None. Restores the trees."""
        if taken is None:
            return []
        if self.counts:
            stay, away = needed(taken, left_in_tree(self.leaf, self.request), self.leaf, {}), taken
        else:
            stay = away = fill_back(taken, self.take, self.put_back, fits, last_is_needed=True)
        for target in away:
            self.put_back(target)
        return stay

    def fits(self) -> bool:
        """Whether the request fits without the targets taken, including its pods on nodes."""
        return fits(self.leaf, self.request) and (self.finds_placement is None or self.finds_placement())

    def held(self, workload: WorkloadState) -> Request:
        """The usage of *workload* that the search takes into account."""
        return workload.request

    def take(self, target: WorkloadTarget) -> None:
        """Treats *target* as stopped."""
        workload = target.workload
        take_on_trial(workload.leaf, self.held(workload), CHARGED)
        if self.finds_placement is not None:
            release(workload.reservations)

    def put_back(self, target: WorkloadTarget) -> None:
        """The inverse of `take`."""
        workload = target.workload
        add_on_trial(workload.leaf, self.held(workload), CHARGED)
        if self.finds_placement is not None:
            reserve(workload.reservations)
