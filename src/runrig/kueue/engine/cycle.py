"""One cycle over imported queues: one head per queue, all nominated for the state at its start, then served one by one.

1. Take the head of every open queue.
2. Nominate each: flavors, counts, targets.
3. Order them.
4. Serve each: admit it, stop its targets, or skip it, given earlier decisions.
5. Release what was reserved only for this cycle.

A head that gets nothing returns to the line or is parked.
"""

from collections.abc import Iterable

from runrig.domain.kueue import Preemption
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL, Request, fits
from runrig.engine.quota.together import Change
from runrig.kueue.decisions import Admission, PendingReason
from runrig.kueue.declared import ClusterQueue, Granted, Policy, Workload
from runrig.kueue.engine.head_order import Nomination, in_classical_order, in_fair_order
from runrig.kueue.engine.node_tree import Reservation, can_reserve, reserve
from runrig.kueue.engine.nomination import nominate, nominate_again, nominate_promised
from runrig.kueue.engine.scheduler_context import DECIDED, Away, SchedulerContext
from runrig.kueue.engine.workload import FIT, NOFIT, WorkloadState


class Cycle:
    """One cycle. *number* counts cycles. The results of `run` are *admitted*, *preempted*, *skipped* (by queue) and *looked* (names)."""

    def __init__(self, context: SchedulerContext, number: int, now: float) -> None:
        self._context = context
        self._number = number
        self._now = now
        self._held: list[tuple[WorkloadState, Request, tuple[Reservation, ...]]] = []
        self._away: list[Away] = []
        self._starting: list[WorkloadState] = []
        self._held_in = DECIDED if context.strategies is None else LAYERS
        self.admitted: list[Admission] = []
        self.preempted: list[Preemption] = []
        self.skipped: dict[str, int] = {}
        self.looked: set[str] = set()

    def run(self) -> None:
        heads = self._context.heads()
        self.looked = {head.spec.name for head in heads}
        entries = self._nominate(heads)
        order = in_classical_order if self._context.strategies is None else in_fair_order
        for entry in order(self._context, entries):
            self._serve(entry)
        self._close()

    # ------------------------------------------------------------ 2. nominate

    def _nominate(self, heads: Iterable[WorkloadState]) -> list[Nomination]:
        """The nominations that can have an effect; the other heads return to the line immediately."""
        promised, entries = [], []
        for head in heads:
            if head.barred is not None:
                why, parked = head.barred
                self._back(head, why, parked=parked)
            elif head.held is not None:
                promised.append(head)
            else:
                entries.append(self._first_look(head))
        entries += nominate_promised(self._context, promised)
        served = []
        for entry in entries:
            mode = entry.assigned.mode
            if mode == NOFIT or (mode < FIT and not self._counts(entry)):
                self._found_nothing(entry)
            else:
                served.append(entry)
        return served

    def _first_look(self, head: WorkloadState) -> Nomination:
        queue = self._context.queues[head.queue]
        after = head.tried
        if after and head.tried_in[0] != queue.generation:
            last = head.tried_in[1] == self._number - 1
            if not (last and self._context.gates["FlavorFungibilityPreserveScanProgress"]):
                after = ()
        entry = nominate(self._context, head, after=after)
        entry.promised = self._context.preemptors_first and queue.preemptor is head
        return self._noted(entry)

    def _noted(self, entry: Nomination) -> Nomination:
        """Records in its workload how far the scan got."""
        workload = entry.workload
        workload.tried = entry.assigned.tried
        workload.tried_in = (self._context.queues[workload.queue].generation, self._number)
        return entry

    def _counts(self, entry: Nomination) -> bool:
        """Whether it has targets, or reserves quota for the rest of the cycle because it may be unable to reclaim it later."""
        return bool(entry.targets) or entry.promised or self._reclaim(entry.workload) is not Policy.ANY

    def _reclaim(self, workload: WorkloadState) -> Policy:
        return self._context.queues[workload.queue].spec.policies.reclaim

    # ------------------------------------------------------------ 4. serve

    def _serve(self, entry: Nomination) -> None:
        gates = self._context.gates
        if self._overlaps(entry) and gates["RecomputeAssignmentUponPreemptionTargetsOverlap"]:
            entry = self._again(entry)
            if entry.assigned.mode == FIT:
                self._wait_too(entry)
                return
        elif self._place_is_taken(entry) and gates["TASRecomputeAssignmentWithinSchedulingCycle"]:
            with self._context.nobody_gone(self._away):
                entry = self._again(entry)
        if entry.assigned.mode == NOFIT:
            self._found_nothing(entry)
        elif self._overlaps(entry):
            self._pass_over(entry)
        elif entry.targets:
            self._stop_for(entry)
        elif entry.assigned.mode < FIT:
            self._reserve(entry)
            self._found_nothing(entry)
        elif self._still_fits(entry):
            self._admit(entry)
        else:
            self._pass_over(entry)

    def _overlaps(self, entry: Nomination) -> bool:
        """Whether an earlier entry took one of the targets of *entry*."""
        gone = self._context.gone
        return bool(gone and entry.targets) and any(target.workload.spec.name in gone for target in entry.targets)

    def _place_is_taken(self, entry: Nomination) -> bool:
        """Whether *entry* has quota, but an earlier entry took the nodes of its placement."""
        if not entry.assigned.placement.reservations or not (entry.targets or entry.assigned.mode == FIT):
            return False
        away = self._context.take_as_gone([target.workload for target in entry.targets])
        taken = fits(entry.workload.leaf, entry.assigned.request) and not self._still_fits(entry)
        self._context.count_again(away)
        return taken

    def _again(self, entry: Nomination) -> Nomination:
        """*entry* in the current state, with the same flavors: fewer pods, other targets, another placement, or nothing."""
        return self._noted(nominate_again(self._context, entry))

    def _wait_too(self, entry: Nomination) -> None:
        """The targets of others free what *entry* needs, so it waits for them too."""
        entry.workload.waits_for, entry.workload.tried = tuple(sorted(self._context.gone)), ()
        self._hold(entry.workload, entry.assigned.request, entry.assigned.placement.reservations)
        if self._context.as_peer:
            self._context.queues[entry.workload.queue].preempts(entry.workload, always=False)
        self._back(entry.workload, PendingReason.WAITING_FOR_TARGETS)

    def _stop_for(self, entry: Nomination) -> None:
        """Stops the targets of *entry*, if it then fits."""
        workload, context = entry.workload, self._context
        safe = context.evicted_by.safe_from(workload.spec.name)
        if safe and any(target.workload.spec.name in safe for target in entry.targets):
            self._pass_over(entry)  # a preemption in this cycle would complete a cycle of evictions (rule R5)
            return
        away = context.take_as_gone([target.workload for target in entry.targets])
        if self._still_fits(entry):
            self._away.append(away)
            self._preempt(entry)
        else:
            context.count_again(away)
            self._pass_over(entry)

    def _still_fits(self, entry: Nomination) -> bool:
        """Whether it fits next to what this cycle decided before."""
        assigned = entry.assigned
        return fits(entry.workload.leaf, assigned.request) and can_reserve(assigned.placement.reservations)

    def _admit(self, entry: Nomination) -> None:
        workload, assigned = entry.workload, entry.assigned
        queue, spec = self._context.queues[workload.queue], workload.spec
        request, reservations = assigned.request, assigned.placement.reservations
        granted = assigned.granted(workload.shape)
        workload.holds(request, granted, reservations, assigned.indices)
        if reservations:
            workload.shape.short = ()
        workload.reserved_at, workload.held, workload.pending_reason, workload.tried = self._now, None, None, ()
        self._context.hold(workload.leaf, request, reservations)
        if queue.first is workload:
            queue.let_first(None)
        if queue.preemptor is workload:
            queue.preemptor = None
        self._starting.append(workload)
        self.admitted.append(Admission(spec.name, workload.queue, granted, _checks_open(spec, queue.spec, granted)))

    def _preempt(self, entry: Nomination) -> None:
        """Treats its targets as stopped."""
        workload, context = entry.workload, self._context
        by, gone, queues, names = workload.spec.name, context.gone, context.queues, []
        for taken, reason in entry.targets:
            name, queue = taken.spec.name, taken.queue
            names.append(name)
            gone[name] = taken
            queues[queue].set_aside(taken)
            if not (taken.evicted and context.as_peer):
                self.preempted.append(Preemption(name, queue, by, reason))
        self._hold(workload, entry.assigned.request, entry.assigned.placement.reservations)
        workload.tried, workload.waits_for = (), tuple(sorted(names))
        if not context.as_peer:
            context.evicted_by.note(names, by)
            workload.held = entry.assigned
        queues[workload.queue].preempts(workload, always=not context.as_peer)
        self._back(workload, PendingReason.WAITING_FOR_TARGETS)

    def _hold(self, workload: WorkloadState, request: Request, reservations: tuple[Reservation, ...]) -> None:
        """Reserves *request* and *reservations* for *workload* until the end of the cycle, and in shares if they order the heads."""
        self._context.hold(workload.leaf, request, reservations, self._held_in)
        self._held.append((workload, request, reservations))

    def _reserve(self, entry: Nomination) -> None:
        """Reserves what the queue may be unable to reclaim later: up to its nominal quota, or its borrowing limit."""
        leaf = entry.workload.leaf
        if self._reclaim(entry.workload) is Policy.ANY and not entry.promised:
            return
        held = []
        for index, amount in entry.assigned.request:
            most, limit = leaf.nominal[index], leaf.borrowing[index]
            if entry.assigned.level:
                if limit is not None:
                    amount = min(amount, most + limit - leaf.usage[REAL][index])
            else:
                amount = min(amount, most - leaf.usage[REAL][index])
            if amount > 0:
                held.append((index, amount))
        self._hold(entry.workload, tuple(held), entry.assigned.placement.reservations)

    # ------------------------------------------------------------ back in line

    def _found_nothing(self, entry: Nomination) -> None:
        """Parks an entry that neither fits nor has candidates, unless flavors are left to try."""
        workload = entry.workload
        queue = self._context.queues[workload.queue]
        left_to_try = any(at >= 0 for at in workload.tried)
        workload.shape.short = entry.assigned.short
        self._back(
            workload,
            entry.assigned.pending_reason or PendingReason.WAITING_FOR_QUOTA,
            parked=not (queue.strict or left_to_try),
            alike_too=True,
        )

    def _pass_over(self, entry: Nomination) -> None:
        """An earlier entry took what it needs: it stays in line, and its search continues with the next flavor."""
        workload = entry.workload
        if not self._context.gates["FlavorFungibilityPreserveScanProgress"]:
            workload.tried = ()
        if entry.targets:
            self.skipped[workload.queue] = self.skipped.get(workload.queue, 0) + 1
        self._back(workload, PendingReason.WAITING_FOR_QUOTA)

    def _back(
        self, workload: WorkloadState, pending_reason: PendingReason, *, parked: bool = False, alike_too: bool = False
    ) -> None:
        queue = self._context.queues[workload.queue]
        workload.pending_reason = pending_reason
        if pending_reason is not PendingReason.WAITING_FOR_TARGETS:
            workload.held = None
            if queue.strict and queue.first is workload:
                queue.let_first(None)
        if parked:
            queue.park(workload, alike_too=alike_too and self._context.gates["SchedulingEquivalenceHashing"])
        else:
            queue.add(workload)

    def _close(self) -> None:
        """5. Releases what counted only in this cycle, and records which workloads now use quota or stop."""
        context = self._context
        changes: list[Change] = []
        others = [layer for layer in self._held_in if layer != CHARGED]
        for workload, request, reservations in self._held:
            context.give_back(workload.leaf, request, reservations, others)
            changes.append((workload.leaf, request, -1))
        for held, nodes in self._away:
            changes += held
            reserve(nodes)
        context.change(changes)
        for workload in context.gone.values():
            context.stopping += not workload.evicted
            context.queues[workload.queue].mark_evicted(workload)
        context.gone.clear()
        for workload in self._starting:
            context.queues[workload.queue].hold(workload)
        context.changed(*[workload.leaf for workload in self._starting])


def _checks_open(spec: Workload, queue: ClusterQueue, granted: Iterable[Granted]) -> bool:
    """Whether *spec* must wait for admission checks with what it was *granted*."""
    flavors = {flavor for each in granted for _, flavor in each.flavors}
    return spec.checks_open or any(
        name not in spec.checks_ready and (not only or not flavors.isdisjoint(only)) for name, only in queue.checks
    )
