"""Why an imported workload is waiting: per flavor, the node of the tree that blocks it, with its numbers (rule Q3)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from runrig.domain.quantities import has_several_flavors
from runrig.domain.reasons import Code, Reason
from runrig.engine.quota.limits import ceilings
from runrig.engine.quota.quota_node import REAL, QuotaNode, headroom, potential
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import Policy, StopPolicy, Workload
from runrig.kueue.engine.cluster_queue import FLAVOR_NOT_FOUND
from runrig.kueue.engine.scheduler_context import SchedulerContext
from runrig.kueue.engine.workload import FlavorOption, GroupRequest, WorkloadState


def reasons(context: SchedulerContext, workload: WorkloadState) -> tuple[Reason, ...]:
    """Why *workload* is waiting now. O(flavors × resources × depth); computed on demand, never stored."""
    queue, where = context.queues[workload.queue], workload.queue
    if queue.closed == FLAVOR_NOT_FOUND:
        return (Reason(Code.FLAVOR_NOT_FOUND, "Q2", where=workload.queue, resource=queue.missing),)
    if queue.closed:
        return (Reason(Code.STOPPED, "P4", where=where),)
    if not workload.leaf.active:
        return (Reason(Code.COHORT_CYCLE, "Q5", where=where),)
    if workload.barred is not None:
        return (Reason(Code.MISCONFIGURED, "P3", where=where),)
    if workload.pending_reason is PendingReason.WAITING_FOR_TARGETS:
        return (Reason(Code.WAITS_FOR_TARGETS, "R4", where=where, holders=workload.waits_for),)
    head = queue.head() if queue.strict else None
    if head is not None and head is not workload:
        return (Reason(Code.BEHIND_HEAD, "P4", where=where, holders=(head.spec.name,)),)
    shape = workload.shape
    accepts_fewer = shape.variable and context.gates["PartialAdmission"]
    found = _short_of_quota(context, workload, shape.least if accepts_fewer else shape.counts)
    found += [Reason(Code.NO_MATCHING_FLAVOR, "Q2", where=where, resource=each) for each in shape.uncovered]
    found += [Reason(Code.REQUESTS_NOTHING, "T1", where=where, resource=each) for each in shape.unplaceable]
    found += _not_taken_back(context, workload, shape.least if accepts_fewer else shape.counts)
    found = found or list(shape.short)
    if accepts_fewer and not found and workload.pending_reason is not None:
        # It was evaluated without success, but fewer pods would fit now: report what all pods lack.
        found = _short_of_quota(context, workload, shape.counts, ever=False)
    return tuple(dict.fromkeys(found)) or (Reason(Code.NOT_CONSIDERED, "P4", where=where),)


def why_aside(workload: Workload) -> Reason:
    """Why *workload* is not even in line: no queue accepts it, or its local queue or its owner put it on hold."""
    if workload.stop is not StopPolicy.NONE:
        return Reason(Code.STOPPED, "P4", where=workload.queue, stopped="its local queue")
    if not workload.active or workload.held:
        return Reason(Code.STOPPED, "P4", where=workload.queue, stopped="the workload")
    return Reason(Code.MISCONFIGURED, "P3", where=workload.queue or workload.name)


def _short_of_quota(
    context: SchedulerContext, workload: WorkloadState, counts: tuple[int, ...], *, ever: bool = True
) -> list[Reason]:
    """The amounts that *counts* pods lack in each flavor, for each group request that fits in none.

    *ever*: report requests that exceed what the queue can ever have as such.
    """
    found: list[Reason] = []
    used: dict[int, int] = {}
    for group_request in workload.shape.group_requests:
        amounts = group_request.amounts(counts)
        short = [
            [Reason(Code.NO_MATCHING_FLAVOR, "Q2", where=workload.queue, resource=option.flavor)]
            if option.misfit is not None
            else list(_short(context, workload, _asked(group_request, option, amounts, used), ever=ever))
            for option in group_request.options
        ]
        if all(short):
            found += [reason for each in short for reason in each]
        else:
            chosen = group_request.options[next(at for at, each in enumerate(short) if not each)]
            for index, amount in zip(chosen.indices, amounts, strict=True):
                used[index] = used.get(index, 0) + amount
    return [replace(each, at_least=counts != workload.shape.counts) for each in found]


def _not_taken_back(context: SchedulerContext, workload: WorkloadState, counts: tuple[int, ...]) -> list[Reason]:
    """The amounts that *counts* pods would have to borrow although their queue has lent quota to others.

    Without the right to preempt while borrowing, the lent quota is not reclaimed then (rule R2).
    """
    policies, leaf = context.queues[workload.queue].spec.policies, workload.leaf
    if policies.reclaim is Policy.NEVER or policies.borrow is not Policy.NEVER or context.strategies is not None:
        return []
    lent = False
    borrowed: list[Reason] = []
    used: dict[int, int] = {}
    for group_request in workload.shape.group_requests:
        option = next((each for each in group_request.options if each.misfit is None), None)
        for name, index, amount in _asked(group_request, option, group_request.amounts(counts), used) if option else ():
            if index < 0:
                continue
            over = leaf.usage[REAL][index] + amount - leaf.nominal[index]
            if over > 0:
                several = _several(context, name)
                borrowed.append(Reason(Code.WOULD_BORROW, "R2", workload.queue, name, need=over, named=several))
            elif amount > headroom(leaf, index, REAL):
                lent = True
    return borrowed if lent else []


Asked = tuple[str, int, int]
"""(``flavor/resource``, its index, the amount including earlier group requests)."""


def _asked(
    group_request: GroupRequest, option: FlavorOption, amounts: list[int], used: dict[int, int]
) -> Iterator[Asked]:
    for resource, index, amount in zip(group_request.resources, option.indices, amounts, strict=True):
        if amount:
            yield f"{option.flavor}/{resource}", index, amount + (used.get(index, 0) if index >= 0 else 0)


def _short(
    context: SchedulerContext, workload: WorkloadState, asked: Iterable[Asked], *, ever: bool
) -> Iterator[Reason]:
    leaf = workload.leaf
    for name, index, amount in asked:
        most = potential(leaf, index) if index >= 0 else 0
        if amount > most and (ever or index < 0):
            several = _several(context, name)
            yield Reason(Code.EXCEEDS_POTENTIAL, "Q4", workload.queue, name, most, amount, named=several)
            continue
        for node, have in ceilings(leaf, index, REAL):
            if amount > have:
                where = context.tree.label(node)
                yield Reason(_code(leaf, node), "Q3", where, name, have, amount, named=_several(context, name))
                break


def _several(context: SchedulerContext, name: str) -> bool:
    """Whether several flavors have the resource of *name*, ``flavor/resource``."""
    return has_several_flavors(context.tree.keys, name.partition("/")[2])


def _code(leaf: QuotaNode, node: QuotaNode) -> Code:
    """At a root, the quota of a single leaf is full or nothing is idle; below a root, a borrowing limit blocks it."""
    if node.parent is None:
        return Code.QUOTA_FULL if node is leaf else Code.NO_IDLE_TO_BORROW
    return Code.BORROWING_LIMIT
