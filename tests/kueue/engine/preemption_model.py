"""A slow and simple model of preemption: the classical search and the one of fair sharing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from runrig.domain.kueue import FAIR, Settings, Strategy
from runrig.domain.quantities import FlavorResource
from runrig.kueue.decisions import PreemptionReason
from runrig.kueue.declared import Granted, Policies, Policy, Workload
from tests.kueue.engine.quota_model import COHORT, QUEUE, Amounts, Ledger, Node, Weighted


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload with quota, and its usage."""

    workload: Workload
    amounts: Mapping[FlavorResource, int]

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def queue(self) -> str:
        return self.workload.queue


@dataclass(frozen=True, slots=True)
class Need:
    """The request of an incoming workload. Candidates are only workloads that were granted something *contested*, even
    if 0.
    """

    workload: Workload
    requests: Mapping[FlavorResource, int]
    contested: frozenset[FlavorResource]


Target = tuple[Holder, PreemptionReason]


def amounts_of(grants: Iterable[Granted]) -> Amounts:
    amounts: Amounts = {}
    for granted in grants:
        flavors = dict(granted.flavors)
        for resource, amount in granted.usage:
            fr = FlavorResource(flavors[resource], resource)
            amounts[fr] = amounts.get(fr, 0) + amount
    return amounts


def holder_of(workload: Workload) -> Holder:
    return Holder(workload, amounts_of(workload.granted or ()))


def without(ledger: Ledger, gone: Iterable[Holder]) -> Ledger:
    for holder in gone:
        ledger = ledger.minus(holder.queue, holder.amounts)
    return ledger


def targets(ledger: Ledger, holders: Iterable[Holder], need: Need, settings: Settings) -> list[Target]:
    """The targets that free enough for *need*; empty if there are none."""
    if settings.strategies is None:
        return Classical(ledger, list(holders), need).search()
    return Fair(ledger, list(holders), need, settings).search()


def allows(policy: Policy, incoming: Workload, candidate: Workload) -> bool:
    if policy is Policy.NEVER:
        return False
    if policy is Policy.ANY or candidate.priority < incoming.priority:
        return True
    same = candidate.priority == incoming.priority
    return policy is Policy.LOWER_OR_NEWER and same and candidate.queued_at > incoming.queued_at


def order(queue: str, holder: Holder) -> tuple[bool, bool, int, float, str, str]:
    workload = holder.workload
    return (
        not workload.evicted,
        workload.queue == queue,
        workload.priority,
        -workload.reserved_at,
        workload.uid,
        workload.name,
    )


class Search:
    """The common part of both searches: candidates, the fit test, and restoring."""

    def __init__(self, ledger: Ledger, holders: list[Holder], need: Need) -> None:
        self.ledger, self.holders, self.need = ledger, holders, need
        self.tree = ledger.tree
        self.queue = need.workload.queue
        self.node = Node(QUEUE, self.queue)
        self.policies: Policies = self.tree.queues[self.queue].policies

    def of_queue(self, queue: str, policy: Policy) -> list[Holder]:
        return [
            holder
            for holder in self.holders
            if holder.queue == queue
            and any(fr in holder.amounts for fr in self.need.contested)
            and allows(policy, self.need.workload, holder.workload)
        ]

    def over(self, ledger: Ledger, node: Node) -> bool:
        """True if it exceeds its nominal quota of something contested."""
        return any(ledger.borrows(node, fr) for fr in self.need.contested)

    def fits(self, taken: Iterable[Target], *, borrowing: bool = True) -> bool:
        ledger = without(self.ledger, (holder for holder, _ in taken))
        requests = self.need.requests
        if not borrowing and any(ledger.borrows(self.node, fr, amount) for fr, amount in requests.items()):
            return False
        return ledger.fits(self.queue, requests)

    def put_back(self, taken: list[Target], *, borrowing: bool) -> list[Target]:
        for target in reversed(taken[:-1]):
            fewer = [other for other in taken if other is not target]
            if self.fits(fewer, borrowing=borrowing):
                taken = fewer
        return taken


@dataclass(frozen=True, slots=True)
class Candidate:
    """*common*: the lowest common cohort with the preemptor; None in the same queue. *borrowing*: can be taken while
    the preemptor borrows.
    """

    holder: Holder
    reason: PreemptionReason
    common: Node | None = None
    only_within_nominal: bool = False


class Classical(Search):
    def collect(self) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """Collects candidates to whose quota the preemptor is entitled, then those of other queues, then those of its
        own.
        """
        own = [
            Candidate(holder, PreemptionReason.IN_QUEUE)
            for holder in self.of_queue(self.queue, self.policies.within_queue)
        ]
        better: list[Candidate] = []
        others: list[Candidate] = []
        left = dict(self.need.requests)
        path = self.tree.path(self.node)
        advantage = False
        for below, cohort in pairwise(path):
            advantage = advantage or all(
                self.tree.subtree(below, fr) >= self.ledger.usage(below, fr) + amount for fr, amount in left.items()
            )
            left = {fr: max(0, amount - self.ledger.local_available(below, fr)) for fr, amount in left.items()}
            for child in self.tree.children(cohort):
                if child == below:
                    continue
                for holder in self.under(child):
                    (better if advantage else others).append(self.classify(holder, cohort, advantage=advantage))
        return better, others, own

    def under(self, node: Node) -> list[Holder]:
        if not self.over(self.ledger, node):
            return []
        if node.kind == QUEUE:
            return self.of_queue(node.name, self.policies.reclaim)
        return [holder for child in self.tree.children(node) for holder in self.under(child)]

    def classify(self, holder: Holder, cohort: Node, *, advantage: bool) -> Candidate:
        if advantage:
            return Candidate(holder, PreemptionReason.RECLAIM, cohort)
        policies, priority = self.policies, holder.workload.priority
        limit = policies.borrow_max_priority
        if (
            policies.borrow is not Policy.NEVER
            and priority < self.need.workload.priority
            and (limit is None or priority <= limit)
        ):
            return Candidate(holder, PreemptionReason.RECLAIM_WHILE_BORROWING, cohort)
        return Candidate(holder, PreemptionReason.RECLAIM, cohort, only_within_nominal=True)

    def search(self) -> list[Target]:
        better, others, own = self.collect()
        sequence = [
            candidate
            for evicted in (True, False)
            for part in (better, others, own)
            for candidate in sorted(part, key=lambda c: order(self.queue, c.holder))
            if candidate.holder.workload.evicted is evicted
        ]
        never = self.policies.borrow is Policy.NEVER
        below = all(
            self.ledger.usage(self.node, fr) < self.tree.quota(self.node, fr).nominal for fr in self.need.contested
        )
        if not (better or others) or (never and not below):
            attempts = [True]
        elif never and not better:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrowing in attempts:
            if taken := self.attempt(sequence, borrowing=borrowing):
                return taken
        return []

    def attempt(self, sequence: list[Candidate], *, borrowing: bool) -> list[Target]:
        taken: list[Target] = []
        for candidate in sequence:
            if borrowing and candidate.only_within_nominal:
                continue
            if not self.still_over(candidate, taken):
                continue
            taken.append((candidate.holder, candidate.reason))
            if self.fits(taken, borrowing=borrowing):
                return self.put_back(taken, borrowing=borrowing)
        return []

    def still_over(self, candidate: Candidate, taken: list[Target]) -> bool:
        if candidate.common is None:
            return True
        ledger = without(self.ledger, (holder for holder, _ in taken))
        path = self.tree.path(Node(QUEUE, candidate.holder.queue))
        return all(self.over(ledger, node) for node in path[: path.index(candidate.common)])


class Fair(Search):
    def __init__(self, ledger: Ledger, holders: list[Holder], need: Need, settings: Settings) -> None:
        super().__init__(ledger, holders, need)
        self.strategies = settings.strategies or FAIR
        self.free_within_nominal = settings.gates.get("FairSharingPreemptWithinNominal", True)
        self.taken: list[Target] = []
        self.candidates: dict[str, list[Holder]] = {}

    def now(self) -> Ledger:
        """Usage with the request and without the targets taken."""
        ledger = without(self.ledger, (holder for holder, _ in self.taken))
        return ledger.plus(self.queue, self.need.requests)

    def collect(self) -> None:
        root = self.tree.root(self.node)
        for name in self.tree.queues:
            node = Node(QUEUE, name)
            if name == self.queue:
                found = self.of_queue(name, self.policies.within_queue)
            elif self.tree.root(node) == root and self.over(self.ledger, node):
                found = self.of_queue(name, self.policies.reclaim)
            else:
                found = []
            self.candidates[name] = sorted(found, key=lambda holder: order(self.queue, holder))

    def choose(self) -> str | None:
        """The queue to preempt from next: from the root, the child with the highest share."""
        if self.tree.parent(self.node) is None:
            return self.queue if self.candidates[self.queue] else None
        return self.choose_under(self.tree.path(self.node)[-1])

    def choose_under(self, cohort: Node) -> str | None:
        ledger = self.now()
        live = [child for child in self.tree.children(cohort) if self.live(ledger, child)]
        queues = [child for child in live if child.kind == QUEUE]
        cohorts = [child for child in live if child.kind == COHORT]
        queues.sort(key=lambda q: order(self.queue, self.candidates[q.name][0]))
        queue = max(queues, key=ledger.weighted, default=None)
        inner = max(reversed(cohorts), key=ledger.weighted, default=None)
        if inner is not None and (queue is None or ledger.weighted(inner) >= ledger.weighted(queue)):
            return self.choose_under(inner)
        return queue.name if queue is not None else None

    def live(self, ledger: Ledger, node: Node) -> bool:
        mine = node in self.tree.path(self.node)
        if not mine and not ledger.dominant(node).borrowing:
            return False
        if node.kind == QUEUE:
            return bool(self.candidates[node.name])
        return any(self.live(ledger, child) for child in self.tree.children(node))

    def take(self, holder: Holder, reason: PreemptionReason) -> bool:
        self.taken.append((holder, reason))
        return self.fits(self.taken)

    def sides(self, queue: str) -> tuple[Node, Node]:
        """The nodes just below the lowest common cohort, on the preemptor's side and on that of *queue*."""
        mine, other = self.tree.path(self.node), self.tree.path(Node(QUEUE, queue))
        common = next(node for node in mine if node in other)
        return mine[mine.index(common) - 1], other[other.index(common) - 1]

    def passes(self, strategy: Strategy, holder: Holder) -> bool:
        ours, theirs = self.sides(holder.queue)
        ledger = self.now()
        share = ledger.weighted(ours)
        if strategy is Strategy.INITIAL_SHARE:
            return share < ledger.weighted(theirs)
        return share <= ledger.minus(holder.queue, holder.amounts).weighted(theirs)

    def hopeless(self, queue: str) -> bool:
        ours, theirs = self.sides(queue)
        ledger = self.now()
        share: Weighted = ledger.weighted(ours)
        return share.infinite and not ledger.weighted(theirs).infinite

    def search(self) -> list[Target]:
        self.collect()
        failed = self.spared()
        fits = self.first_pass(failed)
        if not fits and any(holder.queue == self.queue for holder, _ in self.taken):
            self.candidates, failed = failed, self.spared()
            fits = self.first_pass(failed)
        if fits or (self.strategies == FAIR and self.second_pass(failed)):
            return self.put_back(self.taken, borrowing=True)
        return []

    def spared(self) -> dict[str, list[Holder]]:
        return {name: [] for name in self.candidates}

    def first_pass(self, failed: dict[str, list[Holder]]) -> bool:
        entitled = self.free_within_nominal and not self.over(self.now(), self.node)
        while (queue := self.choose()) is not None:
            waiting = self.candidates[queue]
            if queue == self.queue:
                if self.take(waiting.pop(0), PreemptionReason.IN_QUEUE):
                    return True
                continue
            if entitled:
                if self.take(waiting.pop(0), PreemptionReason.RECLAIM):
                    return True
                continue
            hopeless = self.hopeless(queue)
            while waiting:
                holder = waiting.pop(0)
                if not hopeless and self.passes(self.strategies[0], holder):
                    if self.take(holder, PreemptionReason.FAIR_SHARING):
                        return True
                    break
                failed[queue].append(holder)
        return False

    def second_pass(self, failed: dict[str, list[Holder]]) -> bool:
        self.candidates = failed
        while (queue := self.choose()) is not None:
            holder = failed[queue][0]
            failed[queue] = []
            if self.passes(Strategy.INITIAL_SHARE, holder) and self.take(holder, PreemptionReason.FAIR_SHARING):
                return True
        return False
