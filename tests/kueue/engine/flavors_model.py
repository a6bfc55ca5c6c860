"""A slow and simple model of the choice of flavors: the scan, and smaller counts."""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from runrig.domain.kueue import Settings
from runrig.domain.nodes import Taint
from runrig.domain.quantities import PODS, FlavorResource
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import (
    ClusterQueue,
    Granted,
    MatchExpression,
    NodeChoice,
    Policy,
    Preference,
    ResourceFlavor,
    ResourceGroup,
    Toleration,
    Workload,
    WorkloadPodSet,
)
from tests.kueue.engine.preemption_model import Holder, Need, Target, targets, without
from tests.kueue.engine.quota_model import QUEUE, Amounts, Ledger, Node


class Mode(enum.IntEnum):
    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


SEVERITY = (PendingReason.WAITING_FOR_QUOTA, PendingReason.EXCEEDS_MAX_QUOTA, PendingReason.NO_MATCHING_FLAVOR)
"""The mildest first."""

Start = Mapping[tuple[str, str], int]
"""The last flavor tried, by (pod set, first resource of the group)."""

Stick = Mapping[tuple[str, str], str]
"""The only flavor to look at, by (pod set, first resource of the group)."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One flavor for one resource group. *level*: its borrowing level."""

    flavor: str
    mode: Mode
    level: int = 0
    word: PendingReason | None = None
    modes: Mapping[str, tuple[Mode, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """*last_tried*: where the scan stopped early. *chosen*: flavor by (pod set, first resource of the group)."""

    mode: Mode
    granted: tuple[Granted, ...]
    amounts: Mapping[FlavorResource, int]
    contested: frozenset[FlavorResource]
    level: int
    word: PendingReason | None
    last_tried: Start
    chosen: Mapping[tuple[str, str], str]

    @property
    def preempts(self) -> bool:
        return Mode.NO_FIT < self.mode < Mode.FIT


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a scan: the state, and the workloads that may be preempted."""

    ledger: Ledger
    holders: tuple[Holder, ...]
    flavors: Mapping[str, ResourceFlavor]
    settings: Settings

    def without(self, gone: Iterable[Holder]) -> "Situation":
        names = {holder.name for holder in gone}
        left = tuple(holder for holder in self.holders if holder.name not in names)
        return Situation(without(self.ledger, gone), left, self.flavors, self.settings)


# ---------------------------------------------------------------- nodes of a flavor


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(
        (not t.effect or t.effect == taint.effect)
        and (not t.key or t.key == taint.key)
        and (t.operator == "Exists" or t.value == taint.value)
        for t in tolerations
    )


def holds(expression: MatchExpression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
    if value is None or not value.lstrip("-").isdigit():
        return False
    bound = int(expression.values[0])
    return int(value) > bound if expression.operator == "Gt" else int(value) < bound


def matches(flavor: ResourceFlavor, choice: NodeChoice) -> bool:
    """True if the taints are tolerated and the flavor's labels are accepted."""
    for taint in flavor.taints:
        if taint.effect != "PreferNoSchedule" and not tolerated(taint, choice.tolerations + flavor.tolerations):
            return False
    if any(key in flavor.labels and flavor.labels[key] != value for key, value in choice.selector):
        return False
    return not choice.terms or any(
        all(holds(expression, flavor.labels) for expression in term if expression.key in flavor.labels)
        for term in choice.terms
    )


# ---------------------------------------------------------------- the scan


def totals(queue: ClusterQueue, pod_set: WorkloadPodSet, count: int) -> dict[str, int]:
    """The requests of *count* pods. Uncovered resources are included only if they are above zero, because then they are
    refused.
    """
    covered = {resource for group in queue.groups for resource in group.resources}
    asked = {resource: amount * count for resource, amount in pod_set.requests}
    if PODS in covered:
        asked[PODS] = count
    return {resource: amount for resource, amount in asked.items() if amount or resource in covered}


def rank(fungibility: Preference, mode: Mode, level: int) -> tuple[int, ...]:
    """A higher rank is better."""
    if fungibility is Preference.BORROWING_OVER_PREEMPTION or mode <= Mode.NO_CANDIDATES:
        return (min(mode, Mode.PREEMPT), mode, -level)
    return (Mode.PREEMPT, -level, mode)


class Scan:
    """The scan for one workload with given counts. *stick*: the only flavor to try, by (pod set, group)."""

    def __init__(self, situation: Situation, workload: Workload, counts: tuple[int, ...]) -> None:
        self.situation, self.workload, self.counts = situation, workload, counts
        self.ledger = situation.ledger
        self.tree = situation.ledger.tree
        self.queue = self.tree.queues[workload.queue]
        self.node = Node(QUEUE, workload.queue)
        self.earlier: Amounts = {}
        self.words: list[PendingReason] = []
        self.worst = Mode.FIT
        self.refused = False
        self.level = 0
        self.contested: set[FlavorResource] = set()
        self.last_tried: dict[tuple[str, str], int] = {}
        self.chosen: dict[tuple[str, str], str] = {}

    def run(self, start: Start, stick: Stick | None = None) -> Assignment:
        taken: dict[str, dict[str, str]] = {pod_set.name: {} for pod_set in self.workload.pod_sets}
        asked = {
            pod_set.name: totals(self.queue, pod_set, count)
            for pod_set, count in zip(self.workload.pod_sets, self.counts, strict=True)
        }
        for together in self.together():
            self.place(together, asked, taken, start, stick)
            if self.refused:  # the scan ends, and its position in these pod sets is reset
                self.last_tried = {key: at for key, at in self.last_tried.items() if key[0] != together[0].name}
                break
        granted = tuple(
            Granted(
                pod_set.name,
                count,
                tuple(sorted(taken[pod_set.name].items())),
                tuple(sorted((r, a) for r, a in asked[pod_set.name].items() if r in taken[pod_set.name])),
            )
            for pod_set, count in zip(self.workload.pod_sets, self.counts, strict=True)
        )
        word = max(self.words, key=SEVERITY.index, default=None)
        return Assignment(
            self.worst,
            granted,
            dict(self.earlier),
            frozenset(self.contested),
            self.level,
            word,
            self.last_tried,
            self.chosen,
        )

    def together(self) -> list[list[WorkloadPodSet]]:
        sets: dict[str, list[WorkloadPodSet]] = {}
        for pod_set in self.workload.pod_sets:
            sets.setdefault(f"={pod_set.group}" if pod_set.group else pod_set.name, []).append(pod_set)
        return list(sets.values())

    def place(
        self,
        together: list[WorkloadPodSet],
        asked: Mapping[str, Mapping[str, int]],
        taken: Mapping[str, dict[str, str]],
        start: Start,
        stick: Stick | None,
    ) -> None:
        """Chooses flavors for pod sets that must have the same ones."""
        need: dict[str, int] = {}
        for pod_set in together:
            for resource, amount in asked[pod_set.name].items():
                need[resource] = need.get(resource, 0) + amount
        if any(self.tree.group_of(self.queue.name, resource) is None for resource in need):
            self.worst, self.refused = Mode.NO_FIT, True
            self.words.append(PendingReason.NO_MATCHING_FLAVOR)
            need = {}
        found: Amounts = {}
        for group in self.queue.groups:
            part = {resource: need[resource] for resource in sorted(group.resources) if resource in need}
            if not part:
                continue
            key = (together[0].name, group.resources[0])
            only = None if stick is None else stick.get(key, "")
            best = self.group(group, only, part, together, key, start.get(key, -1))
            for pod_set in together:
                taken[pod_set.name].update(dict.fromkeys((r for r in part if r in asked[pod_set.name]), best))
            found.update({FlavorResource(best, resource): amount for resource, amount in part.items()} if best else {})
        for fr, amount in found.items():
            self.earlier[fr] = self.earlier.get(fr, 0) + amount

    def group(
        self,
        group: ResourceGroup,
        only: str | None,
        part: Mapping[str, int],
        together: list[WorkloadPodSet],
        key: tuple[str, str],
        last: int,
    ) -> str:
        """The flavor for one resource group; empty if none works."""
        fungibility = self.queue.fungibility
        best: Tried | None = None
        mildest: list[PendingReason] = []
        self.last_tried[key] = -1
        for index, name in enumerate(group.flavors):
            if index <= last or only not in (None, name):
                continue
            tried = self.flavor(name, part, together)
            if tried.word is not None:
                mildest.append(tried.word)
            ranked = rank(fungibility.preference, tried.mode, tried.level)
            goes_on = (
                tried.mode <= Mode.NO_CANDIDATES
                or (tried.mode < Mode.FIT and fungibility.next_if_preempts)
                or (tried.level > 0 and fungibility.next_if_borrows)
            )
            if best is None or not goes_on or ranked > rank(fungibility.preference, best.mode, best.level):
                best = tried
            if not goes_on:
                self.last_tried[key] = index if index < len(group.flavors) - 1 else -1
                break
        if best is None or best.mode is Mode.NO_FIT:
            self.worst, self.refused = Mode.NO_FIT, True
            self.words.append(min(mildest, key=SEVERITY.index, default=PendingReason.NO_MATCHING_FLAVOR))
            return ""
        if best.mode is not Mode.FIT:
            self.words.append(min(mildest, key=SEVERITY.index))
        self.settle(best, key)
        return best.flavor

    def settle(self, best: Tried, key: tuple[str, str]) -> None:
        self.chosen[key] = best.flavor
        for resource, (mode, level) in best.modes.items():
            self.worst = min(self.worst, mode)
            self.level = max(self.level, level)
            if mode is not Mode.FIT:
                self.contested.add(FlavorResource(best.flavor, resource))

    def flavor(self, name: str, part: Mapping[str, int], together: list[WorkloadPodSet]) -> Tried:
        flavor = self.situation.flavors.get(name)
        if flavor is not None and not all(matches(flavor, pod_set.nodes) for pod_set in together):
            return Tried(name, Mode.NO_FIT, 0, PendingReason.NO_MATCHING_FLAVOR)
        modes: dict[str, tuple[Mode, int]] = {}
        words: list[PendingReason] = []
        for resource, amount in part.items():
            fr = FlavorResource(name, resource)
            mode, level, word = self.resource(fr, amount + self.earlier.get(fr, 0))
            modes[resource] = mode, level
            if word is not None:
                words.append(word)
        preference = self.queue.fungibility.preference
        mode, level = min(modes.values(), key=lambda one: rank(preference, *one))
        return Tried(name, mode, level, max(words, key=SEVERITY.index, default=None), modes)

    def resource(self, fr: FlavorResource, amount: int) -> tuple[Mode, int, PendingReason | None]:
        queue, policies = self.queue, self.queue.policies
        if amount > self.tree.potential(self.node, fr):
            return Mode.NO_FIT, 0, PendingReason.EXCEEDS_MAX_QUOTA
        level, may_reclaim = self.ledger.borrowing_level(queue.name, fr, amount)
        if self.ledger.fits(queue.name, {fr: amount}):
            return Mode.FIT, level, None
        fair = self.situation.settings.strategies is not None
        while_borrowing = (policies.reclaim if fair else policies.borrow) is not Policy.NEVER
        if not (self.tree.quota(self.node, fr).nominal >= amount or may_reclaim or while_borrowing):
            return Mode.NO_FIT, 0, PendingReason.WAITING_FOR_QUOTA
        need = Need(self.workload, {fr: amount}, frozenset({fr}))
        found = targets(self.ledger, self.situation.holders, need, self.situation.settings)
        if not found:
            return Mode.NO_CANDIDATES, level, PendingReason.WAITING_FOR_QUOTA
        after = without(self.ledger, (holder for holder, _ in found))
        level, _ = after.borrowing_level(queue.name, fr, amount)
        inside = any(holder.queue == queue.name for holder, _ in found)
        return (Mode.PREEMPT if inside else Mode.RECLAIM), level, PendingReason.WAITING_FOR_QUOTA


# ---------------------------------------------------------------- counts


@dataclass(frozen=True, slots=True)
class Nomination:
    """The result for one head. *counts*: pods per pod set."""

    workload: Workload
    assignment: Assignment
    targets: tuple[Target, ...]
    counts: tuple[int, ...]

    @property
    def accepted(self) -> bool:
        return self.assignment.mode is Mode.FIT or bool(self.targets)


def full_counts(workload: Workload, settings: Settings) -> tuple[int, ...]:
    reclaims = settings.gates.get("ReclaimablePods", True)
    return tuple(p.count - (min(p.count, p.reclaimable) if reclaims else 0) for p in workload.pod_sets)


def tried_with(
    situation: Situation, workload: Workload, counts: tuple[int, ...], start: Start, stick: Stick | None = None
) -> Nomination:
    assignment = Scan(situation, workload, counts).run(start, stick)
    found: list[Target] = []
    if assignment.preempts:
        asked = {fr: amount for fr, amount in assignment.amounts.items() if amount}
        need = Need(workload, asked, assignment.contested)
        found = targets(situation.ledger, situation.holders, need, situation.settings)
    return Nomination(workload, assignment, tuple(found), counts)


def ranges(workload: Workload, full: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(
        0 if pod_set.min_count is None else max(0, count - pod_set.min_count)
        for pod_set, count in zip(workload.pod_sets, full, strict=True)
    )


def reduced(full: tuple[int, ...], spans: tuple[int, ...], step: int) -> tuple[int, ...]:
    total = sum(spans)
    return tuple(count - span * step // total for count, span in zip(full, spans, strict=True))


def nominate(situation: Situation, workload: Workload, start: Start, stick: Stick | None = None) -> Nomination:
    """*stick*: the only flavors to try."""
    full = full_counts(workload, situation.settings)
    first = tried_with(situation, workload, full, start, stick)
    if first.accepted or not situation.settings.gates.get("PartialAdmission", True):
        return first
    probes: dict[tuple[int, ...], Nomination] = {}

    def accepted(counts: tuple[int, ...]) -> bool:
        probes[counts] = tried_with(situation, workload, counts, start, stick)
        return probes[counts].accepted

    counts = bisect(full, ranges(workload, full), accepted)
    return first if counts is None else probes[counts]


def bisect(
    full: tuple[int, ...], spans: tuple[int, ...], accepted: Callable[[tuple[int, ...]], bool]
) -> tuple[int, ...] | None:
    """The counts of the smallest accepted step, found by bisection; None if the last accepted probe is another step."""
    if not sum(spans):
        return None
    low, high = 0, sum(spans) + 1
    last: int | None = None
    while low < high:
        step = (low + high) // 2
        if accepted(reduced(full, spans, step)):
            high = last = step
        else:
            low = step + 1
    return reduced(full, spans, low) if last == low else None
