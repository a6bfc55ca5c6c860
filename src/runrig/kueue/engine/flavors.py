"""Flavors of a workload: the best option for each of its group requests, in the order of the queue's resource groups.

An option is rated by its worst resource: it fits, reclaims, preempts, has no candidates, or can never fit. Earlier pod sets of
the same workload count. The queue's fungibility determines how borrowing is weighed against preemption, and when the scan
continues after finding something.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runrig.domain.reasons import Code, Reason
from runrig.engine.quota.quota_node import CHARGED, Request, add_on_trial, fits, take_on_trial
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import Fungibility, Policy, Preference
from runrig.kueue.engine.cluster_queue import QueueState
from runrig.kueue.engine.greedy_fit import Misfit
from runrig.kueue.engine.scheduler_context import SchedulerContext, level_of
from runrig.kueue.engine.targets import workload_targets
from runrig.kueue.engine.workload import (
    FIT,
    NO_CANDIDATES,
    NOFIT,
    PREEMPT,
    RECLAIM,
    FlavorAssignment,
    FlavorOption,
    GroupRequest,
    WorkloadShape,
    WorkloadState,
    WorkloadTarget,
)
from runrig.kueue.engine.workload_placement import FindsPlacement, WorkloadPlacement

PENDING_REASONS = (
    None,
    PendingReason.TOPOLOGY,
    PendingReason.WAITING_FOR_QUOTA,
    PendingReason.EXCEEDS_MAX_QUOTA,
    PendingReason.NO_MATCHING_FLAVOR,
)
"""Obstacles to using an option, least severe first. The scan compares their indices, which are named below."""

NOTHING, NO_PLACE, WAITING, EXCEEDS, MISMATCH = range(5)


Searched = dict[Request, Sequence[WorkloadTarget]]
"""The searches for targets of one nomination, each for one resource of one flavor."""


class _Verdict(NamedTuple):
    """The rating of one option. *mode*, *level*: of its worst resource, by the preferences of its queue.

    *lowest*: the worst mode of any resource. *highest*: the highest level of any. *contested*: indices that need preemption.
    """

    mode: int
    level: int
    lowest: int
    highest: int
    contested: tuple[int, ...]
    severity: int


MISFIT = _Verdict(NOFIT, 0, NOFIT, 0, (), MISMATCH)
NEVER = _Verdict(NOFIT, 0, NOFIT, 0, (), EXCEEDS)
CROWDED = _Verdict(NOFIT, 0, NOFIT, 0, (), NO_PLACE)
GOOD = _Verdict(FIT, 0, FIT, 0, (), NOTHING)

UNBEATEN = (RECLAIM, 0)
"""Mode and level that only a fitting option beats, if modes come first: other options need no search then."""

NONE_FOUND: dict[str, WorkloadPlacement] = {}
"""For work without a topology; always empty."""

_Resource = tuple[int, int]
"""Mode and borrowing level of one resource of one flavor."""


def assign(
    context: SchedulerContext,
    workload: WorkloadState,
    counts: tuple[int, ...],
    searched: Searched,
    *,
    after: Sequence[int] = (),
    only: Sequence[FlavorOption | None] | None = None,
) -> FlavorAssignment:
    """The best flavors for *counts* pods per pod set, by the current CHARGED usage.

    *after*: per group request, the option to continue after. *only*: per group request, the only option that may be used.
    """
    shape = workload.shape
    whole = counts is shape.counts
    scan = _Scan(context, workload, counts, searched)
    for at, group_request in enumerate(shape.group_requests[: shape.scanned]):
        if scan.refused is not None and group_request.members != scan.refused:
            break
        amounts = shape.whole[at] if whole else group_request.amounts(counts)
        scan.choose(group_request, amounts, after[at] + 1 if after else 0, None if only is None else only[at])
    return scan.concluded()


class _Scan:
    def __init__(
        self,
        context: SchedulerContext,
        workload: WorkloadState,
        counts: tuple[int, ...],
        searched: Searched,
    ) -> None:
        self._context = context
        self._searched = searched
        self._workload = workload
        self._queue: QueueState = context.queues[workload.queue]
        self._used: dict[int, int] = {}
        # As in Kueue, nodes are checked after all flavors are chosen (`nomination`).
        self._placed = workload.shape.placed and not context.as_peer
        self._found: dict[str, WorkloadPlacement] = {} if self._placed else NONE_FOUND
        self._severity = NOTHING
        self.result = FlavorAssignment(counts)
        self.refused: tuple[int, ...] | None = None

    def choose(
        self, group_request: GroupRequest, amounts: Sequence[int], start: int, only: FlavorOption | None
    ) -> None:
        """Adds the best option from *start* on, or *only*, to the result."""
        options = group_request.options
        rules = self._queue.spec.fungibility
        placed = self._placed
        weighed = placed or rules.preference is Preference.PREEMPTION_OVER_BORROWING
        best, chosen, at = MISFIT, None, start - 1
        severity = MISMATCH
        for at in range(start, len(options)):
            option = options[at]
            if only is not None and option is not only:
                continue
            if best[:2] == UNBEATEN and not weighed and not self._fits(option, amounts):
                continue
            verdict = MISFIT if option.misfit is not None else self._judge(option, amounts)
            if placed and verdict.mode > NOFIT:
                verdict = self._with_place(group_request, option, amounts, verdict)
            severity = min(severity, verdict.severity)
            stops = verdict is GOOD or _stops(verdict, rules)
            if stops or chosen is None or _rank(verdict[:2], rules) > _rank(best[:2], rules):
                best, chosen = verdict, option
            if stops:
                break
        self._record(best, chosen if best.mode > NOFIT else None, amounts)
        result = self.result
        result.tried += (-1 if at >= len(options) - 1 else at,)
        if best.mode < FIT:
            self._severity = max(self._severity, severity)
        if best.mode == NOFIT and severity > NO_PLACE:
            self.refused = group_request.members

    def _fits(self, option: FlavorOption, amounts: Sequence[int]) -> bool:
        """Whether *option* is available without preemption."""
        used, leaf = self._used, self._workload.leaf
        return option.misfit is None and all(
            not amount or (index >= 0 and fits(leaf, ((index, amount + used.get(index, 0)),)))
            for index, amount in zip(option.indices, amounts, strict=True)
        )

    def concluded(self) -> FlavorAssignment:
        """The result. A pod set that quota refuses ends the scan; its progress from there on is discarded."""
        shape, result = self._workload.shape, self.result
        known = shape.scanned
        if self.refused is not None:
            known = next(at for at, each in enumerate(shape.group_requests) if each.members == self.refused)
        elif shape.uncovered or shape.unplaceable:
            result.mode, self._severity = NOFIT, MISMATCH
        result.tried = result.tried[:known] + (-1,) * (len(shape.group_requests) - known)
        result.pending_reason = PENDING_REASONS[self._severity]
        if self._placed and NOFIT < result.mode < FIT:
            result.contested |= asked_on_nodes(shape, result)
        return result

    def _record(self, best: _Verdict, chosen: FlavorOption | None, amounts: Sequence[int]) -> None:
        result = self.result
        result.chosen.append(chosen)
        if best is not GOOD:
            result.mode = min(result.mode, best.lowest)
            result.level = max(result.level, best.highest)
            result.contested = result.contested.union(best.contested)
        if chosen is None:
            return
        if self._placed and chosen.flavor in self._found:
            result.placement = result.placement.and_also(self._found.pop(chosen.flavor))
        used = self._used
        for index, amount in zip(chosen.indices, amounts, strict=True):
            if amount:
                used[index] = used.get(index, 0) + amount
        result.request = tuple(sorted(used.items()))

    def _judge(self, option: FlavorOption, amounts: Sequence[int]) -> _Verdict:
        """The rating of *option* by quota."""
        short = []
        used, leaf = self._used, self._workload.leaf
        usage, nominal = leaf.usage[CHARGED], leaf.nominal
        for index, amount in zip(option.indices, amounts, strict=True):
            if index < 0:
                if amount:
                    return NEVER
                continue
            if used:
                amount += used.get(index, 0)
            if usage[index] + amount > nominal[index] or (amount and not fits(leaf, ((index, amount),))):
                short.append((index, amount))
        return self._short_of_nominal(tuple(short)) if short else GOOD

    def _short_of_nominal(self, short: Request) -> _Verdict:
        """The rating of an option where *short*, including earlier pod sets, does not fit, or fits only by borrowing."""
        potential = self._queue.potential
        for index, amount in short:
            if amount > potential[index]:
                return NEVER
        rules = self._queue.spec.fungibility
        worst: _Resource = (FIT, -1)
        lowest, highest = FIT, 0
        contested: tuple[int, ...] = ()
        for index, amount in short:
            found = mode, level = self._resource(index, amount)
            if mode == NOFIT:
                return _Verdict(NOFIT, level, NOFIT, level, (), WAITING)
            lowest, highest = min(lowest, mode), max(highest, level)
            if mode < FIT:
                contested += (index,)
            if worst[1] < 0 or _rank(found, rules) < _rank(worst, rules):
                worst = found
        mode, level = worst
        return _Verdict(mode, level, lowest, highest, contested, WAITING if mode < FIT else NOTHING)

    def _resource(self, index: int, amount: int) -> _Resource:
        """The rating of one resource of one flavor that exceeds nominal or does not fit in the tree."""
        leaf = self._workload.leaf
        level, may_reclaim = level_of(leaf, index, amount)
        if not amount or fits(leaf, ((index, amount),)):
            return FIT, level
        if leaf.nominal[index] >= amount or may_reclaim or self._preempts_while_borrowing():
            return self._by_preemption(index, amount, level)
        return NOFIT, level

    def _preempts_while_borrowing(self) -> bool:
        policies = self._queue.spec.policies
        policy = policies.borrow if self._context.strategies is None else policies.reclaim
        return policy is not Policy.NEVER

    def _by_preemption(self, index: int, amount: int, level: int) -> _Resource:
        """The rating of one resource without its targets."""
        request = ((index, amount),)
        targets = self._searched.get(request)
        if targets is None:
            targets = self._searched[request] = workload_targets(
                self._context, self._workload, request, frozenset((index,))
            )
        if not targets:
            return NO_CANDIDATES, level
        gone = [each.workload for each in targets]
        outside = all(each.queue != self._workload.queue for each in gone)
        mode, leaf = RECLAIM if outside else PREEMPT, self._workload.leaf
        if leaf.usage[CHARGED][index] + amount <= leaf.nominal[index]:
            return mode, 0  # within nominal already, so it will be without them
        held = [(each.leaf, tuple([pair for pair in each.request if pair[0] == index])) for each in gone]
        for its, part in held:
            take_on_trial(its, part, CHARGED)
        level, _ = level_of(leaf, index, amount)
        for its, part in held:
            add_on_trial(its, part, CHARGED)
        return mode, level

    # ------------------------------------------------------------ nodes

    def _with_place(
        self, group_request: GroupRequest, option: FlavorOption, amounts: Sequence[int], verdict: _Verdict
    ) -> _Verdict:
        """*verdict*, which is about quota, if nodes count too: without room on them, it needs preemption or can never fit."""
        nodes, result = self._context.nodes, self.result
        members = self._workload.shape.members(group_request, result.counts)

        def found(*, empty: bool) -> WorkloadPlacement | Misfit:
            return nodes.place(option.flavor, members, result.placement, empty=empty)

        placement = found(empty=False) if verdict.lowest == FIT else None
        if isinstance(placement, WorkloadPlacement):
            self._found[option.flavor] = placement
            return verdict
        if placement is not None:
            result.short += (self._short(option, placement),)
        ever = found(empty=True)
        if isinstance(ever, Misfit):
            result.short += (self._short(option, ever),) if placement is None else ()
            return CROWDED
        self._found[option.flavor] = ever
        if placement is None:
            return verdict
        return self._by_making_room(option, amounts, verdict, lambda: isinstance(found(empty=False), WorkloadPlacement))

    def _short(self, option: FlavorOption, misfit: Misfit) -> Reason:
        return Reason(Code.NO_ROOM_ON_NODES, "T1", self._workload.queue, option.flavor, misfit.have, misfit.need)

    def _by_making_room(
        self, option: FlavorOption, amounts: Sequence[int], quota: _Verdict, finds_placement: FindsPlacement
    ) -> _Verdict:
        """The rating if quota fits, by *quota*, but nodes do not: searches for targets. All requested resources are contested."""
        wanted = dict(self._used)
        for index, amount in zip(option.indices, amounts, strict=True):
            if amount and index >= 0:
                wanted[index] = wanted.get(index, 0) + amount
        contested = tuple(index for index in option.indices if index >= 0)
        request = tuple(sorted(wanted.items()))
        targets = workload_targets(self._context, self._workload, request, frozenset(contested), finds_placement)
        mode = NO_CANDIDATES
        if targets:
            mode = PREEMPT if any(each.workload.queue == self._workload.queue for each in targets) else RECLAIM
        return _Verdict(mode, quota.level, mode, quota.highest, contested, NO_PLACE)


def asked_on_nodes(shape: WorkloadShape, assigned: FlavorAssignment) -> frozenset[int]:
    """Indices of all resources that pods with a topology request use. The workloads on their nodes may use only
    resources with idle quota.
    """
    return frozenset(
        index
        for group_request, option in zip(shape.group_requests, assigned.chosen, strict=False)
        if option is not None and any(shape.topology[member] is not None for member in group_request.members)
        for index in option.indices
        if index >= 0
    )


def _rank(found: _Resource, rules: Fungibility) -> tuple[int, int, int]:
    """Higher is better. Options without candidates or that never fit come last, whatever the preference."""
    mode, level = found
    if rules.preference is Preference.PREEMPTION_OVER_BORROWING and mode >= PREEMPT:
        return (PREEMPT, -level, mode)
    return (mode, -level, 0)


def _stops(verdict: _Verdict, rules: Fungibility) -> bool:
    """Whether the scan stops at this option and uses it, whatever earlier ones were."""
    if verdict.mode <= NO_CANDIDATES:
        return False
    if verdict.mode < FIT and rules.next_if_preempts:
        return False
    return not (verdict.level and rules.next_if_borrows)
