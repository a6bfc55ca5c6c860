"""Heads that need no scan: a few counters show what they can get, or that they can get nothing (rules A1, R2)."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from runrig.engine.quota.quota_node import CHARGED, QuotaLeaf, Request, fits
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import Policy, Preference
from runrig.kueue.engine.candidates import nobody
from runrig.kueue.engine.flavors import Searched
from runrig.kueue.engine.scheduler_context import SchedulerContext
from runrig.kueue.engine.targets import workload_targets
from runrig.kueue.engine.workload import RECLAIM, FlavorAssignment, WorkloadShape, WorkloadState

_LEAF = attrgetter("workload.leaf")


def ready(shape: WorkloadShape, potential: Sequence[int]) -> Iterator[tuple[Request, FlavorAssignment] | None]:
    """Yields, per option of the only group request, what all pods request (including 0) and the assignment if it fits without
    borrowing.

    Yields None for an option that can never be used. Yields nothing if one option is not enough to decide: several group
    requests, or nodes.
    """
    if len(shape.group_requests) != 1 or shape.uncovered or shape.placed:
        return
    ((group_request,), (amounts,)) = shape.group_requests, shape.whole
    last = len(group_request.options) - 1
    for at, option in enumerate(group_request.options):
        asked = tuple(zip(option.indices, amounts, strict=True))
        if option.misfit is not None or any(index < 0 or amount > potential[index] for index, amount in asked):
            yield None
        else:
            request = tuple(sorted((index, amount) for index, amount in asked if amount))
            tried = (-1 if at == last else at,)
            assignment = FlavorAssignment(shape.counts, chosen=[option], request=request, tried=tried)
            assignment.granted(shape), assignment.indices  # computed here, for all workloads of the shape
            yield asked, assignment


def at_once(
    context: SchedulerContext, workload: WorkloadState, start: int, searched: Searched
) -> FlavorAssignment | None:
    """The result of the scan from option *start* on, with all pods; None if only the scan can tell.

    The scan takes an option that fits without borrowing, unless it has stopped at an earlier one. It never stops at one that
    does not fit and has no candidates. If all are like that, the workload waits and reserves nothing. O(flavors × resources),
    plus one search of *find* if there are candidates, which is added to *searched*.
    """
    shape, leaf = workload.shape, workload.leaf
    queue = context.queues[workload.queue]
    lacks: list[int] = []
    first: list[int] = []
    for option in shape.ready[start:] if start else shape.ready:
        if option is None:
            return None
        asked, assignment = option
        short = lacking(leaf, assignment.request)
        if short:
            first = first or short
            lacks += short
            continue
        if _exceeds_nominal(leaf, asked):
            return None
        passed_over = not lacks or queue.spec.fungibility.next_if_preempts or nobody(queue, workload, lacks)
        return assignment if passed_over else None
    if not lacks or shape.variable:
        return None
    if not nobody(queue, workload, lacks):
        return _taken_back(context, workload, start, first, searched)
    return shape.nothing if queue.spec.policies.reclaim is Policy.ANY else None


def _taken_back(
    context: SchedulerContext,
    workload: WorkloadState,
    start: int,
    lacks: Sequence[int],
    searched: Searched,
) -> FlavorAssignment | None:
    """Option *start*, if it *lacks* only one resource, which other queues return within this queue's nominal quota.

    The scan prefers only an option that fits, unless the queue weighs borrowing against preemption.
    """
    shape, leaf, option = workload.shape, workload.leaf, workload.shape.ready[start]
    rules = context.queues[workload.queue].spec.fungibility
    if option is None or len(lacks) != 1 or rules.preference is Preference.PREEMPTION_OVER_BORROWING:
        return None
    asked, assignment = option
    if _exceeds_nominal(leaf, asked):
        return None
    contested = frozenset(lacks)
    request = tuple([each for each in assignment.request if each[0] in contested])
    targets = searched[request] = workload_targets(context, workload, request, contested)
    if not targets or leaf in map(_LEAF, targets):
        return None
    return FlavorAssignment(
        shape.counts,
        RECLAIM,
        chosen=assignment.chosen,
        request=assignment.request,
        contested=contested,
        tried=(-1,) if rules.next_if_preempts else assignment.tried,
        pending_reason=PendingReason.WAITING_FOR_QUOTA,
    )


def _exceeds_nominal(leaf: QuotaLeaf, asked: Request) -> bool:
    """Whether *leaf* would use more than its nominal quota of something."""
    usage, nominal = leaf.usage[CHARGED], leaf.nominal
    for index, amount in asked:  # noqa: SIM110  (a loop: this is asked for every head)
        if usage[index] + amount > nominal[index]:
            return True
    return False


def lacking(leaf: QuotaLeaf, request: Request) -> list[int]:
    """The indices of *request* for which the headroom of *leaf* (rule Q4) is too small in CHARGED, each taken alone."""
    root = leaf.path[-1]
    usage, subtree, limits = root.usage[CHARGED], root.subtree, leaf.limits
    lacks = []
    for index, amount in request:
        if limits[index]:
            if not fits(leaf, ((index, amount),)):
                lacks.append(index)
        elif amount > subtree[index] - usage[index]:
            lacks.append(index)
    return lacks
