"""Nominates heads: finds the quota and nodes that each could have in the state at the start of the cycle (rules A1,
A2).

The full counts are tried first, without or with preemption. If a pod set can be smaller, the largest counts that work
follow.
"""

from collections.abc import Sequence
from dataclasses import replace

from runrig.domain.reasons import Code, Reason
from runrig.engine.placement.partial import bisected, largest
from runrig.engine.quota.quota_node import CHARGED, Request, fits
from runrig.kueue.decisions import PendingReason
from runrig.kueue.engine.at_once import at_once
from runrig.kueue.engine.flavors import Searched, asked_on_nodes, assign
from runrig.kueue.engine.greedy_fit import Misfit
from runrig.kueue.engine.head_order import Nomination
from runrig.kueue.engine.node_tree import can_reserve, release, reserve
from runrig.kueue.engine.scheduler_context import DECIDED, SchedulerContext, level_of
from runrig.kueue.engine.targets import workload_targets
from runrig.kueue.engine.workload import (
    FIT,
    NO_CANDIDATES,
    NOFIT,
    FlavorAssignment,
    FlavorOption,
    WorkloadState,
    WorkloadTarget,
)
from runrig.kueue.engine.workload_placement import NOWHERE, WorkloadPlacement


def nominate(
    context: SchedulerContext,
    workload: WorkloadState,
    *,
    after: tuple[int, ...] = (),
    only: Sequence[FlavorOption | None] | None = None,
) -> Nomination:
    """The best result for *workload* in the current state: an assignment that fits, targets to preempt, or the
    obstacle.

    *after*, *only*: see `assign`.
    """
    shape = workload.shape
    searched: Searched = {}
    start = after[0] + 1 if after else 0
    known = at_once(context, workload, start, searched) if only is None else None
    if known is not None:
        return Nomination(workload, known, _targets(context, workload, known, searched))

    def attempt(counts: tuple[int, ...]) -> Nomination:
        assigned = assign(context, workload, counts, searched, after=after, only=only)
        if shape.placed and context.as_peer and assigned.mode > NOFIT:
            _put_on_nodes(context, workload, assigned)
        return Nomination(workload, assigned, _targets(context, workload, assigned, searched))

    entry = latest = attempt(shape.counts)
    if _works(entry) or not (shape.variable and context.gates["PartialAdmission"]):
        return entry

    def accepted(counts: tuple[int, ...]) -> Nomination | None:
        nonlocal latest
        latest = attempt(counts)
        return latest if _works(latest) else None

    # As in Kueue, quota is bisected: what fits with more pods fits with fewer. On nodes this does not hold, because a smaller
    # pod set may take the only domain that the next one can use.
    smaller = largest(shape.ranges, accepted, shape.fills_slices) if shape.placed else bisected(shape.ranges, accepted)
    if smaller is None and latest is not entry:  # the latest attempt was the smallest
        entry.assigned.short = tuple(replace(each, at_least=True) for each in latest.assigned.short)
    return smaller or entry


def _put_on_nodes(context: SchedulerContext, workload: WorkloadState, assigned: FlavorAssignment) -> None:
    """As in Kueue: the flavors of *assigned* were chosen by quota alone, and only their nodes are checked now."""
    found = placement_now(context, workload, assigned) if assigned.mode == FIT else None
    if isinstance(found, WorkloadPlacement):
        assigned.placement = found
        return
    ever = placement_now(context, workload, assigned, empty=True)
    short = ever if isinstance(ever, Misfit) else found
    if short is not None:
        assigned.pending_reason = PendingReason.TOPOLOGY
        flavors = {option.flavor for option in assigned.chosen if option is not None}
        name = ", ".join(sorted(flavors))
        assigned.short = (Reason(Code.NO_ROOM_ON_NODES, "T1", workload.queue, name, short.have, short.need),)
    if isinstance(ever, Misfit):
        assigned.mode = NOFIT
        return
    if assigned.mode == FIT:
        assigned.mode = NO_CANDIDATES
    assigned.contested |= asked_on_nodes(workload.shape, assigned)


def _works(entry: Nomination) -> bool:
    return entry.assigned.mode == FIT or bool(entry.targets)


def _targets(
    context: SchedulerContext,
    workload: WorkloadState,
    assigned: FlavorAssignment,
    searched: Searched,
) -> tuple[WorkloadTarget, ...]:
    if not NOFIT < assigned.mode < FIT:
        return ()
    if workload.shape.placed:
        return _targets_with_placement(context, workload, assigned)
    found = _known(context, workload, assigned, searched)
    return tuple(workload_targets(context, workload, assigned.request, assigned.contested) if found is None else found)


def _targets_with_placement(
    context: SchedulerContext, workload: WorkloadState, assigned: FlavorAssignment
) -> tuple[WorkloadTarget, ...]:
    """The targets for pods that need nodes.

    Also sets the placement of *assigned*: the nodes of the pods after the targets have stopped. If no targets were
    found, it is the placement on empty nodes, which may be reserved.
    """

    def found() -> WorkloadPlacement | Misfit:
        return placement_now(context, workload, assigned)

    targets = tuple(
        workload_targets(
            context, workload, assigned.request, assigned.contested, lambda: isinstance(found(), WorkloadPlacement)
        )
    )
    if targets:
        for each in targets:
            release(each.workload.reservations)
        placement = found()
        for each in targets:
            reserve(each.workload.reservations)
        assert isinstance(placement, WorkloadPlacement), "the search found a placement without its targets"
        assigned.placement = placement
    else:
        alone = placement_now(context, workload, assigned, empty=True)
        assigned.placement = NOWHERE if isinstance(alone, Misfit) else alone
    return targets


def placement_now(
    context: SchedulerContext, workload: WorkloadState, assigned: FlavorAssignment, *, empty: bool = False
) -> WorkloadPlacement | Misfit:
    """A placement of *workload* on the current nodes, with the flavors and counts of *assigned*. *empty*: as if they were empty."""
    placement = NOWHERE
    for group_request, option in zip(workload.shape.group_requests, assigned.chosen, strict=True):
        if option is not None:
            members = workload.shape.members(group_request, assigned.counts)
            found = context.nodes.place(option.flavor, members, placement, empty=empty)
            if isinstance(found, Misfit):
                return found
            placement = placement.and_also(found)
    return placement


def _known(
    context: SchedulerContext, workload: WorkloadState, assigned: FlavorAssignment, searched: Searched
) -> Sequence[WorkloadTarget] | None:
    """The targets found by the scan, if one of its searches covers the whole request; otherwise None.

    It does if nothing else is requested. In classical preemption it also does if nothing else is contested and the
    request is within the queue's nominal quota. The preemptor is then entitled at every level, with the whole request
    or this part.
    """
    if len(assigned.contested) > 1:
        return None
    (index,) = assigned.contested
    if len(assigned.request) == 1:
        return searched.get(assigned.request)
    if context.strategies is not None:
        return None
    usage, nominal = workload.leaf.usage[CHARGED], workload.leaf.nominal
    part: Request = ()
    for each in assigned.request:
        at, amount = each
        if usage[at] + amount > nominal[at]:
            return None
        if at == index:
            part = (each,)
    return searched.get(part)


def nominate_again(context: SchedulerContext, entry: Nomination) -> Nomination:
    """Nominates *entry* again in the current state, with the same flavors; searches for its counts again."""
    again = nominate(context, entry.workload, only=entry.assigned.chosen)
    again.promised = entry.promised
    return again


def nominate_promised(context: SchedulerContext, workloads: Sequence[WorkloadState]) -> list[Nomination]:
    """Nominates preemptors whose targets have stopped: each keeps what was freed for it or gets something better, at no one's
    expense (rule R5).

    While one is nominated, the others count with their reservation or its replacement.
    """
    counted = []
    for workload in workloads:
        assert workload.held is not None
        counted.append(workload.held)
        _count(context, workload, workload.held)
    entries = []
    for place, workload in enumerate(workloads):
        held = counted[place]
        _discount(context, workload, held)
        entry = nominate(context, workload)
        if (
            entry.assigned.mode != FIT
            and fits(workload.leaf, held.request)
            and can_reserve(held.placement.reservations)
        ):
            entry = Nomination(workload, _as_fit(workload, held))
        entry.promised = True
        entries.append(entry)
        counted[place] = entry.assigned if entry.assigned.mode == FIT else held
        _count(context, workload, counted[place])
    for workload, assigned in zip(workloads, counted, strict=True):
        _discount(context, workload, assigned)
    return entries


def _count(context: SchedulerContext, workload: WorkloadState, assigned: FlavorAssignment) -> None:
    context.hold(workload.leaf, assigned.request, assigned.placement.reservations, DECIDED)


def _discount(context: SchedulerContext, workload: WorkloadState, assigned: FlavorAssignment) -> None:
    """The inverse of `_count`."""
    context.give_back(workload.leaf, assigned.request, assigned.placement.reservations, DECIDED)


def _as_fit(workload: WorkloadState, held: FlavorAssignment) -> FlavorAssignment:
    level = max((level_of(workload.leaf, index, amount)[0] for index, amount in held.request), default=0)
    return FlavorAssignment(held.counts, FIT, level, held.chosen, held.request, placement=held.placement)
