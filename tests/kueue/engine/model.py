"""A slow and simple model of one cycle over imported queues: heads, nominations, their order and the outcomes. It is an
independent implementation of the rules with the same input and output as the engine, and caches nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runrig.domain.balances import Balance, Share
from runrig.domain.kueue import Pending, Preemption, Settings
from runrig.domain.pools import Queueing
from runrig.domain.quantities import FlavorResource
from runrig.kueue.decisions import Admission, CycleReport, PendingReason
from runrig.kueue.declared import ClusterQueue, LabelSelector, MatchExpression, Policy, StopPolicy, System, Workload
from tests.kueue.engine.flavors_model import Mode, Nomination, Situation, Start, holds, nominate
from tests.kueue.engine.preemption_model import Holder, Target, holder_of, without
from tests.kueue.engine.quota_model import COHORT, QUEUE, Amounts, Ledger, Node, Tree, Usage, Weighted, plus

PLAIN = Settings()


@dataclass
class Outcome:
    """The outcome of a head. *again*: it returns to its queue, whatever the queueing strategy. *forgets*: its next scan
    starts at the first flavor.
    """

    word: PendingReason
    again: bool
    shape_parked: bool = False
    forgets: bool = False


@dataclass
class Entry:
    nomination: Nomination
    outcome: Outcome | None = None

    @property
    def workload(self) -> Workload:
        return self.nomination.workload

    @property
    def queue(self) -> str:
        return self.nomination.workload.queue


@dataclass
class Turn:
    """The state within one cycle. *gone*: targets of earlier entries. *added*: usage of earlier entries."""

    added: Usage
    gone: list[Target] = field(default_factory=list)
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[Preemption] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """Where a scan stopped, in which cycle, and how often its queue had regained quota until then."""

    start: Start
    cycle: int
    releases: int


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    equal = [MatchExpression(key, "In", (value,)) for key, value in selector.labels]
    return all(holds(expression, labels) for expression in (*equal, *selector.expressions))


def shape(workload: Workload) -> object:
    """Workloads of one shape get the same result."""
    pod_sets = tuple((p.count, p.reclaimable, p.min_count, p.requests, p.nodes, p.group) for p in workload.pod_sets)
    return pod_sets, workload.priority


class Model:
    def __init__(self, system: System, settings: Settings = PLAIN) -> None:
        self.system, self.settings = system, settings
        self.tree = Tree(system)
        self.flavors = {flavor.name: flavor for flavor in system.flavors}
        self.workloads: dict[str, Workload] = {}
        for workload in system.workloads:
            self.submit(workload)
        self.parked: set[str] = set()
        self.sticky: dict[str, str] = {}
        self.last_tried: dict[str, Progress] = {}
        self.releases: dict[str, int] = {}
        self.cycles = 0

    # ------------------------------------------------------------ the state

    def gate(self, name: str, *, default: bool = True) -> bool:
        return self.settings.gates.get(name, default)

    def holders(self) -> tuple[Holder, ...]:
        return tuple(holder_of(w) for _, w in sorted(self.workloads.items()) if w.granted is not None)

    def usage(self) -> Usage:
        usage: Usage = {}
        for holder in self.holders():
            usage = plus(usage, holder.queue, holder.amounts)
        return usage

    def ledger(self) -> Ledger:
        return Ledger(self.tree, self.usage())

    def situation(self) -> Situation:
        live = tuple(h for h in self.holders() if self.active(self.tree.queues[h.queue]))
        return Situation(self.ledger(), live, self.flavors, self.settings)

    def active(self, queue: ClusterQueue) -> bool:
        return self.popped(queue) and not self.tree.in_cycle(Node(QUEUE, queue.name))

    def popped(self, queue: ClusterQueue) -> bool:
        """True if a head is taken from the queue. In a cycle of cohorts it is taken and then refused."""
        return self.tree.open(queue.name)

    def pending(self, queue: str) -> list[Workload]:
        """The pending workloads in order."""
        found = [w for w in self.workloads.values() if w.queue == queue and w.granted is None]
        first = self.sticky.get(queue)
        return sorted(found, key=lambda w: (w.name != first, -w.priority, w.queued_at, w.uid, w.name))

    def heads(self) -> list[Workload]:
        heads = []
        for name, queue in sorted(self.tree.queues.items()):
            waiting = [w for w in self.pending(name) if w.name not in self.parked and self.may_start(w)]
            if waiting and self.popped(queue):
                heads.append(waiting[0])
        return heads

    def may_start(self, workload: Workload) -> bool:
        return workload.active and not workload.problem and workload.stop is StopPolicy.NONE

    # ------------------------------------------------------------ a cycle

    def cycle(self, now: float) -> CycleReport:
        heads = self.heads()
        self.cycles += 1
        entries: list[Entry] = []
        outcomes: dict[str, Outcome] = {}
        for head in heads:
            if not self.active(self.tree.queues[head.queue]):
                outcomes[head.name] = Outcome(PendingReason.SUSPENDED, again=False)
            elif self.welcome(head):
                entries.append(Entry(nominate(self.situation(), head, self.start_of(head))))
            else:
                outcomes[head.name] = Outcome(PendingReason.MISCONFIGURED, again=False)
        turn = Turn(self.usage())
        self.process(entries, turn)
        for entry in entries:
            if entry.outcome is not None:
                outcomes[entry.workload.name] = entry.outcome
        shaped = self.requeue({e.workload.name: e for e in entries}, outcomes)
        for admission in turn.admitted:
            self.start(admission, now)
        return self.report(turn, outcomes, shaped)

    def welcome(self, workload: Workload) -> bool:
        """True if its queue accepts workloads from its namespace."""
        labels = self.system.namespaces.get(workload.namespace, {})
        return selects(self.tree.queues[workload.queue].namespaces, labels)

    def start_of(self, workload: Workload) -> Start:
        """Where its scan continues. Progress from earlier cycles is dropped once quota was released in its queue."""
        progress = self.last_tried.get(workload.name)
        if progress is None:
            return {}
        released = self.releases.get(workload.queue, 0) != progress.releases
        fresh = progress.cycle == self.cycles - 1 and self.preserves()
        return progress.start if fresh or not released else {}

    def preserves(self) -> bool:
        return self.gate("FlavorFungibilityPreserveScanProgress")

    def start(self, admission: Admission, now: float) -> None:
        name = admission.workload
        workload = self.workloads[name]
        self.workloads[name] = replace(
            workload, granted=admission.granted, reserved_at=now, admitted=not workload.checks_open
        )
        self.last_tried.pop(name, None)
        if self.sticky.get(workload.queue) == name:
            del self.sticky[workload.queue]

    def report(self, turn: Turn, outcomes: Mapping[str, Outcome], shaped: Mapping[str, PendingReason]) -> CycleReport:
        waiting = [
            Pending(
                w.name,
                w.queue,
                considered=w.name in outcomes,
                parked=w.name in self.parked,
                reason=outcomes[w.name].word if w.name in outcomes else shaped.get(w.name),
            )
            for w in self.workloads.values()
            if w.granted is None
        ]
        return CycleReport(
            admitted=tuple(sorted(turn.admitted, key=lambda a: a.workload)),
            preempted=tuple(sorted(turn.preempted, key=lambda p: p.workload)),
            pending=tuple(sorted(waiting, key=lambda w: w.workload)),
            skipped=turn.skipped,
        )

    # ------------------------------------------------------------ order and processing

    def process(self, entries: list[Entry], turn: Turn) -> None:
        left = list(entries)
        while left:
            entry = self.next_entry(left, turn)
            left.remove(entry)
            entry.outcome = self.process_one(entry, turn)

    def next_entry(self, left: list[Entry], turn: Turn) -> Entry:
        if self.settings.strategies is None:
            return min(left, key=self.classical_key)
        first = left[0]
        root = self.tree.path(Node(QUEUE, first.queue))[-1]
        if root.kind == QUEUE:
            return first
        winner = self.tournament(root, left, Ledger(self.tree, turn.added))
        assert winner is not None
        return winner

    def classical_key(self, entry: Entry) -> tuple[bool, int, int, float, str, str]:
        workload = entry.workload
        waits_first = self.gate("PrioritizePreemptorWorkloads", default=False) and self.is_sticky(workload)
        priority = -workload.priority if self.gate("PrioritySortingWithinCohort") else 0
        level = entry.nomination.assignment.level
        return (not waits_first, level, priority, workload.queued_at, workload.uid, workload.name)

    def is_sticky(self, workload: Workload) -> bool:
        return self.sticky.get(workload.queue) == workload.name

    def tournament(self, node: Node, left: list[Entry], ledger: Ledger) -> Entry | None:
        if node.kind == QUEUE:
            return next((entry for entry in left if entry.queue == node.name), None)
        best: tuple[tuple[bool, bool, Weighted, int, float, str, str], Entry] | None = None
        for child in self.tree.children(node):
            entry = self.tournament(child, left, ledger)
            if entry is None:
                continue
            key = self.fair_key(entry, child, ledger)
            if best is None or key < best[0]:
                best = key, entry
        return None if best is None else best[1]

    def fair_key(self, entry: Entry, child: Node, ledger: Ledger) -> tuple[bool, bool, Weighted, int, float, str, str]:
        workload = entry.workload
        amounts = {fr: amount for fr, amount in entry.nomination.assignment.amounts.items() if amount}
        after = ledger.plus(entry.queue, amounts)
        waits_first = self.gate("PrioritizePreemptorWorkloads", default=False) and self.is_sticky(workload)
        borrows = self.gate("FairSharingPrioritizeNonBorrowing") and after.borrows_any(child, set(amounts))
        return (
            not waits_first,
            borrows,
            after.weighted(child),
            -workload.priority,
            workload.queued_at,
            workload.uid,
            workload.name,
        )

    def process_one(self, entry: Entry, turn: Turn) -> Outcome | None:
        """The outcome; None if it is admitted."""
        nomination = entry.nomination
        gone = {holder.name for holder, _ in turn.gone}
        deferred = False
        overlaps = any(holder.name in gone for holder, _ in nomination.targets)
        if overlaps and self.gate("RecomputeAssignmentUponPreemptionTargetsOverlap"):
            nomination = entry.nomination = self.again(nomination, turn)
            deferred, overlaps = nomination.assignment.mode is Mode.FIT, False
        assignment = nomination.assignment
        if assignment.mode is Mode.NO_FIT:
            return Outcome(assignment.word or PendingReason.WAITING_FOR_QUOTA, again=False, shape_parked=True)
        if assignment.mode is not Mode.FIT and not nomination.targets:
            self.reserve(entry, turn)
            return Outcome(assignment.word or PendingReason.WAITING_FOR_QUOTA, again=False, shape_parked=True)
        if overlaps or not self.still_fits(nomination, turn):
            if nomination.targets:
                turn.skipped[entry.queue] = turn.skipped.get(entry.queue, 0) + 1
            return Outcome(PendingReason.WAITING_FOR_QUOTA, again=True, forgets=not self.preserves())
        turn.added = plus(turn.added, entry.queue, assignment.amounts)
        if nomination.targets or deferred:
            return self.preempt(nomination, turn)
        turn.admitted.append(
            Admission(entry.workload.name, entry.queue, assignment.granted, entry.workload.checks_open)
        )
        return None

    def again(self, nomination: Nomination, turn: Turn) -> Nomination:
        """Nominates it again with the same flavors, without the targets of earlier entries."""
        now = Situation(Ledger(self.tree, turn.added), self.situation().holders, self.flavors, self.settings)
        now = now.without([holder for holder, _ in turn.gone])
        return nominate(now, nomination.workload, {}, stick=nomination.assignment.chosen)

    def still_fits(self, nomination: Nomination, turn: Turn) -> bool:
        ledger = Ledger(self.tree, turn.added)
        ledger = without(ledger, (holder for holder, _ in (*turn.gone, *nomination.targets)))
        return ledger.fits(nomination.workload.queue, nomination.assignment.amounts)

    def preempt(self, nomination: Nomination, turn: Turn) -> Outcome:
        workload = nomination.workload
        for holder, reason in nomination.targets:
            turn.preempted.append(Preemption(holder.name, holder.queue, workload.name, reason))
        turn.gone += nomination.targets
        if nomination.targets and self.tree.queues[workload.queue].queueing is Queueing.BEST_EFFORT_FIFO:
            self.sticky[workload.queue] = workload.name
        return Outcome(PendingReason.WAITING_FOR_TARGETS, again=True, forgets=True)

    def reserve(self, entry: Entry, turn: Turn) -> None:
        """If it has no targets and might not be able to reclaim its quota later, reserves what is left for this cycle."""
        queue = self.tree.queues[entry.queue]
        if queue.policies.reclaim is Policy.ANY:
            return
        assignment = entry.nomination.assignment
        held: Amounts = {}
        for fr, amount in assignment.amounts.items():
            quota = queue.quotas[fr]
            left = quota.nominal - turn.added.get((queue.name, fr), 0)
            if not assignment.level:
                held[fr] = max(0, min(amount, left))
            elif quota.borrowing_limit is None:
                held[fr] = amount
            else:
                held[fr] = max(0, min(amount, left + quota.borrowing_limit))
        turn.added = plus(turn.added, queue.name, held)

    # ------------------------------------------------------------ the queues

    def requeue(self, entries: Mapping[str, Entry], outcomes: Mapping[str, Outcome]) -> dict[str, PendingReason]:
        """Parks the heads that wait in vain, and workloads of the same shape; returns these with their reason."""
        shaped: dict[str, PendingReason] = {}
        for name, outcome in outcomes.items():
            queue = self.tree.queues[self.workloads[name].queue]
            if name not in entries:
                if outcome.word is PendingReason.MISCONFIGURED or queue.queueing is Queueing.BEST_EFFORT_FIFO:
                    self.parked.add(name)
                continue
            if outcome.again or queue.queueing is Queueing.STRICT_FIFO:
                self.remember(name, entries[name], outcome)
                continue
            if self.remember(name, entries[name], outcome):
                continue
            self.parked.add(name)
            if outcome.shape_parked and self.gate("SchedulingEquivalenceHashing"):
                for other in self.pending(queue.name):
                    alike = shape(other) == shape(self.workloads[name])
                    if alike and other.name not in self.parked and self.may_start(other):
                        self.parked.add(other.name)
                        shaped[other.name] = outcome.word
        return shaped

    def remember(self, name: str, entry: Entry, outcome: Outcome) -> bool:
        """True if flavors are left to try; the next scan continues there."""
        self.last_tried.pop(name, None)
        last = entry.nomination.assignment.last_tried
        if outcome.forgets or all(index < 0 for index in last.values()):
            return False
        self.last_tried[name] = Progress(last, self.cycles, self.releases.get(entry.queue, 0))
        return True

    def wake(self, queue: str | None = None) -> None:
        """Returns parked workloads to the line: all of them, or those in the tree of *queue*."""
        self.parked = {
            name for name in self.parked if queue is not None and not self.same_tree(self.workloads[name].queue, queue)
        }

    def same_tree(self, one: str, other: str) -> bool:
        roots = {self.tree.root(Node(QUEUE, queue)) for queue in (one, other)}
        return len(roots) == 1 and roots != {None}

    def finish(self, name: str) -> None:
        queue = self.workloads.pop(name).queue
        self.parked.discard(name)
        self.releases[queue] = self.releases.get(queue, 0) + 1
        if self.sticky.get(queue) == name:
            del self.sticky[queue]
        self.wake(queue)

    def submit(self, workload: Workload) -> None:
        boost = workload.boost if self.gate("PriorityBoost", default=False) else 0
        self.workloads[workload.name] = replace(workload, priority=workload.priority + boost)

    # ------------------------------------------------------------ what an observer sees

    def label(self, node: Node) -> str:
        return f"cohort/{node.name}" if node.kind == COHORT and node.name in self.tree.queues else node.name

    def quotas(self) -> dict[str, dict[FlavorResource, Balance]]:
        ledger = self.ledger()
        return {
            self.label(node): {fr: ledger.numbers(node, fr) for fr in sorted(self.tree.listed(node))}
            for node in self.tree.nodes
            if not self.tree.in_cycle(node)
        }

    def shares(self) -> dict[str, Share]:
        ledger = self.ledger()
        return {self.label(node): ledger.share(node) for node in self.tree.nodes if not self.tree.in_cycle(node)}
