"""Heads that need no scan: what they can have, or that they can have nothing, is seen from a few counters (laws A1, R2)."""

from collections.abc import Iterator, Sequence

from runrig.domain.kueue import Policy
from runrig.engine.kueue.candidates import nobody
from runrig.engine.kueue.scheduler_context import SchedulerContext
from runrig.engine.kueue.workload import FlavorAssignment, WorkloadShape, WorkloadState
from runrig.engine.quota.quota_node import CHARGED, QuotaLeaf, Request, fits


def ready(shape: WorkloadShape, potential: Sequence[int]) -> Iterator[tuple[Request, FlavorAssignment] | None]:
    """Per option of its one group request, what all pods ask there, amounts of 0 too, and the assignment if that fits without borrowing.

    None: the option can never be taken.  Nothing at all where one option does not decide: several group requests, or nodes.
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
            assignment.granted(shape), assignment.indices  # worked out here, for all workloads of the shape
            yield asked, assignment


def at_once(context: SchedulerContext, workload: WorkloadState, start: int) -> FlavorAssignment | None:
    """What the scan comes to from option *start* on, all pods asked for; None if only the scan can tell.

    The scan takes an option in which all fits without borrowing, unless it stopped at one before; and it never stops at one that
    lacks room for which nobody may stop.  Where all are like that the workload waits, and holds nothing back.
    O(flavors x resources).
    """
    shape, leaf = workload.shape, workload.leaf
    usage, nominal = leaf.usage[CHARGED], leaf.nominal
    queue = context.queues[workload.queue]
    lacks: list[int] = []
    for option in shape.ready[start:] if start else shape.ready:
        if option is None:
            return None
        asked, assignment = option
        short = lacking(leaf, assignment.request)
        if short:
            lacks += short
            continue
        for index, amount in asked:
            if usage[index] + amount > nominal[index]:
                return None
        return assignment if not lacks or nobody(queue, workload, lacks) else None
    if not lacks or shape.variable or queue.spec.policies.reclaim is not Policy.ANY:
        return None
    return shape.nothing if nobody(queue, workload, lacks) else None


def lacking(leaf: QuotaLeaf, request: Request) -> list[int]:
    """The indices of *request* for which, each by itself, the headroom of *leaf* (law Q4) is too small in CHARGED."""
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
