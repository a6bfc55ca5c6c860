"""One cycle over imported queues: one head per queue, nominated as things stand at its start, served one after the other.

1. Take the head of every open queue.
2. Nominate each: flavors, counts, targets.
3. Order them.
4. Serve each: admit it, let its targets stop, or pass it over; what was decided before it counts.
5. Put back what was only held for the cycle; whoever got nothing goes back into its line, or is parked.
"""

from collections.abc import Iterable

from runrig.domain.kueue import Admission, PendingReason, Policy, Preemption
from runrig.engine.kueue.head_order import Nomination, in_classical_order, in_fair_order
from runrig.engine.kueue.node_matching import selects
from runrig.engine.kueue.node_tree import Reservation, can_reserve, release, reserve
from runrig.engine.kueue.nomination import nominate, nominate_again, nominate_promised, places_now
from runrig.engine.kueue.podset_placement import Misfit
from runrig.engine.kueue.scheduler_context import SchedulerContext, put_back, take_away
from runrig.engine.kueue.workload import FIT, NOFIT, WorkloadState
from runrig.engine.quota.quota_node import CHARGED, REAL, Request, add, fits, take

LAYERS = (CHARGED, REAL)


class Cycle:
    """*number* counts cycles.  Afterwards *admitted*, *preempted*, *skipped*, *looked* say what was done."""

    def __init__(self, book: SchedulerContext, number: int, now: float) -> None:
        self._book = book
        self._number = number
        self._now = now
        self._held: list[tuple[WorkloadState, Request, tuple[Reservation, ...]]] = []
        self._starting: list[WorkloadState] = []
        self.admitted: list[Admission] = []
        self.preempted: list[Preemption] = []
        self.skipped: dict[str, int] = {}
        self.looked: set[str] = set()

    def run(self) -> None:
        heads = [head for line in self._book.lines.values() if line.open and (head := line.pop()) is not None]
        self.looked = {head.workload.name for head in heads}
        entries = self._nominate(heads)
        order = in_classical_order if self._book.strategies is None else in_fair_order
        for entry in order(self._book, entries):
            self._serve(entry)
        self._close()

    # ------------------------------------------------------------ 2. nominate

    def _nominate(self, heads: Iterable[WorkloadState]) -> list[Nomination]:
        """Those that can have an effect; the others go back to their lines at once."""
        promised, entries = [], []
        for head in heads:
            if self._out_of_the_question(head):
                continue
            if head.held is not None:
                promised.append(head)
                continue
            entries.append(self._first_look(head))
        entries += nominate_promised(self._book, promised)
        served = []
        for entry in entries:
            if entry.assigned.mode == NOFIT or (entry.assigned.mode < FIT and not self._counts(entry)):
                self._found_nothing(entry)
            else:
                served.append(entry)
        return served

    def _out_of_the_question(self, head: WorkloadState) -> bool:
        """Parks *head* if its queue may not start anything, if it is wrong itself, or of a namespace that the queue does not take."""
        line = self._book.lines[head.queue]
        if not line.leaf.active:
            self._back(head, PendingReason.SUSPENDED, parked=not line.strict)
            return True
        if head.workload.problem:
            self._back(head, PendingReason.MISCONFIGURED, parked=not line.strict)
            return True
        if not selects(line.queue.namespaces, self._book.namespaces.get(head.workload.namespace, {})):
            self._back(head, PendingReason.MISCONFIGURED, parked=True)
            return True
        return False

    def _first_look(self, head: WorkloadState) -> Nomination:
        line = self._book.lines[head.queue]
        kept = head.tried and head.tried_in[0] == line.generation
        if not kept and self._book.gates["FlavorFungibilityPreserveScanProgress"]:
            kept = bool(head.tried) and head.tried_in[1] == self._number - 1
        entry = nominate(self._book, head, after=head.tried if kept else ())
        head.tried, head.tried_in = entry.assigned.tried, (line.generation, self._number)
        return entry

    def _counts(self, entry: Nomination) -> bool:
        """It has targets, or holds back quota for the rest of the cycle (it could not be sure to get it back)."""
        return bool(entry.targets) or self._reclaim(entry.item) is not Policy.ANY

    def _reclaim(self, item: WorkloadState) -> Policy:
        return self._book.lines[item.queue].queue.policies.reclaim

    # ------------------------------------------------------------ 4. serve

    def _serve(self, entry: Nomination) -> None:
        if entry.assigned.mode < FIT and not entry.targets:
            self._reserve(entry)
            self._found_nothing(entry)
            return
        if any(target.item.workload.name in self._book.gone for target in entry.targets):
            if not self._book.gates["RecomputeAssignmentUponPreemptionTargetsOverlap"]:
                self._pass_over(entry)
                return
            entry = nominate_again(self._book, entry)
            entry.item.tried = entry.assigned.tried  # in these flavors there is nothing left to try
            if entry.assigned.mode == NOFIT:
                self._found_nothing(entry)
                return
            if entry.assigned.mode < FIT and not entry.targets:
                self._serve(entry)
                return
            if entry.assigned.mode == FIT:
                # Targets of others free what it needs: it waits for them too.
                entry.item.waits_for = tuple(sorted(self._book.gone))
                self._hold(entry.item, entry.assigned.request, entry.assigned.places.spots)
                self._back(entry.item, PendingReason.WAITING_FOR_TARGETS)
                return
        self._grant(entry)

    def _grant(self, entry: Nomination) -> None:
        """Admits *entry*, or lets its targets stop, if it still fits."""
        item, book = entry.item, self._book
        safe = book.evicted_by.safe_from(item.workload.name)
        if safe and any(target.item.workload.name in safe for target in entry.targets):
            self._pass_over(entry)  # a preemption of this very cycle would close the circle (law R5)
            return
        for target in entry.targets:
            take_away(target.item)
        if not fits(item.leaf, entry.assigned.request) or (item.shape.placed and not self._has_place(entry)):
            put_back(target.item for target in entry.targets)
            self._pass_over(entry)
            return
        if entry.targets:
            self._preempt(entry)
        else:
            self._admit(entry)

    def _has_place(self, entry: Nomination) -> bool:
        """Its place is still there; else it gets another in the same flavors, if there is one."""
        if can_reserve(entry.assigned.places.spots):
            return True
        if not self._book.gates["TASRecomputeAssignmentWithinSchedulingCycle"]:
            return False
        places = places_now(self._book, entry.item, entry.assigned)
        if isinstance(places, Misfit):
            return False
        entry.assigned.places = places
        return True

    def _admit(self, entry: Nomination) -> None:
        item, assigned = entry.item, entry.assigned
        line = self._book.lines[item.queue]
        item.holds(assigned.request, assigned.granted(item.shape), assigned.places.spots)
        if item.spots:
            item.shape.short = ()
            reserve(item.spots)
        item.reserved_at, item.held, item.word, item.tried = self._now, None, None, ()
        for layer in LAYERS:
            add(item.leaf, item.request, layer)
        if line.first is item:
            line.let_first(None)
        self._book.changed(item.leaf)
        self._starting.append(item)
        self.admitted.append(Admission(item.workload.name, item.queue, item.granted, item.workload.checks_open))

    def _preempt(self, entry: Nomination) -> None:
        item, book = entry.item, self._book
        for target in entry.targets:
            name = target.item.workload.name
            book.gone[name] = target.item
            book.lines[target.item.queue].set_aside(target.item)
            book.changed(target.item.leaf)
            book.evicted_by.note(name, item.workload.name)
            self.preempted.append(Preemption(name, target.item.queue, item.workload.name, target.reason))
        self._hold(item, entry.assigned.request, entry.assigned.places.spots)
        item.held, item.tried = entry.assigned, ()
        item.waits_for = tuple(sorted(target.item.workload.name for target in entry.targets))
        book.lines[item.queue].let_first(item)
        self._back(item, PendingReason.WAITING_FOR_TARGETS)

    def _hold(self, item: WorkloadState, request: Request, spots: tuple[Reservation, ...]) -> None:
        """*request* and *spots* are reserved for until the end of the cycle."""
        for layer in LAYERS:
            add(item.leaf, request, layer)
        reserve(spots)
        self._held.append((item, request, spots))
        self._book.changed(item.leaf)

    def _reserve(self, entry: Nomination) -> None:
        """Holds back what the queue may not be able to take back later: up to its nominal, or its borrowing limit."""
        leaf = entry.item.leaf
        if self._reclaim(entry.item) is Policy.ANY:
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
        self._hold(entry.item, tuple(held), entry.assigned.places.spots)

    # ------------------------------------------------------------ 5. back into the line

    def _found_nothing(self, entry: Nomination) -> None:
        """Neither fits nor finds anybody to preempt: parked, unless flavors are left to try."""
        item = entry.item
        line = self._book.lines[item.queue]
        left_to_try = any(at >= 0 for at in item.tried)
        item.shape.short = entry.assigned.short
        self._back(
            item,
            entry.assigned.word or PendingReason.WAITING_FOR_QUOTA,
            parked=not (line.strict or left_to_try),
            alike_too=True,
        )

    def _pass_over(self, entry: Nomination) -> None:
        """It could have had something, and an earlier one was in the way: it comes again."""
        item = entry.item
        item.tried = ()
        if entry.targets:
            self.skipped[item.queue] = self.skipped.get(item.queue, 0) + 1
        self._back(item, PendingReason.WAITING_FOR_QUOTA)

    def _back(self, item: WorkloadState, word: PendingReason, *, parked: bool = False, alike_too: bool = False) -> None:
        line = self._book.lines[item.queue]
        item.word = word
        if word is not PendingReason.WAITING_FOR_TARGETS:
            item.held = None
            if line.strict and line.first is item:
                line.let_first(None)
        if parked:
            line.park(item, alike_too=alike_too and self._book.gates["SchedulingEquivalenceHashing"])
        else:
            line.add(item)

    def _close(self) -> None:
        """Undoes what counted in this cycle only, and takes note of who holds and who has to stop from now on."""
        book = self._book
        for item, request, spots in self._held:
            for layer in LAYERS:
                take(item.leaf, request, layer)
            release(spots)
            book.changed(item.leaf)
        put_back(book.gone.values())
        for item in book.gone.values():
            book.stopping += not item.evicted
            book.lines[item.queue].told_to_stop(item)
            book.changed(item.leaf)
        book.gone.clear()
        for item in self._starting:
            book.lines[item.queue].hold(item)
            book.changed(item.leaf)
