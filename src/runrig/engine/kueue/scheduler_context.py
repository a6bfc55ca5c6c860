"""What every step of a cycle reads: trees, lines, shares, settings, and the record of who evicted whom (law R5)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from runrig.domain.kueue import Settings, Strategy, System
from runrig.engine.kueue.cluster_queue import QueueState
from runrig.engine.kueue.node_tree import release, reserve
from runrig.engine.kueue.workload import TargetKey, WorkloadState
from runrig.engine.kueue.workload_placement import WorkloadPlacer
from runrig.engine.quota.queue_tree import QueueTree
from runrig.engine.quota.quota_node import CHARGED, Kind, QuotaNode, add, add_on_trial, take
from runrig.engine.quota.share import Amount, Shares

GATES: Mapping[str, bool] = {
    "FairSharingPreemptWithinNominal": True,
    "FairSharingPrioritizeNonBorrowing": True,
    "FlavorFungibilityPreserveScanProgress": True,
    "PartialAdmission": True,
    "PrioritySortingWithinCohort": True,
    "PriorityBoost": False,
    "RecomputeAssignmentUponPreemptionTargetsOverlap": True,
    "ReclaimablePods": True,
    "SchedulingEquivalenceHashing": True,
    "TASBalancedPlacement": False,
    "TASHandleOverlappingFlavors": True,
    "TASMultiLayerTopology": True,
    "TASProfileLeastFreeCapacity": False,
    "TASProfileMixed": True,
    "TASRecomputeAssignmentWithinSchedulingCycle": True,
    "TASRespectNodeAffinityPreferred": False,
    "TopologyAwareScheduling": True,
}
"""The settings that change decisions here, and how they stand by default."""


class EvictedBy:
    """Who evicted whom, so that no preemption closes a circle (law R5): whoever evicted me, at any remove, is safe from me."""

    def __init__(self) -> None:
        self._by: dict[str, set[str]] = {}
        self._of: dict[str, set[str]] = {}

    def note(self, target: str, by: str) -> None:
        self._by.setdefault(target, set()).add(by)
        self._of.setdefault(by, set()).add(target)

    def forget(self, name: str) -> None:
        """*name* has ended: what it did and what was done to it no longer count."""
        for by in self._by.pop(name, ()):
            self._of[by].discard(name)
        for target in self._of.pop(name, ()):
            self._by[target].discard(name)

    def safe_from(self, name: str) -> frozenset[str]:
        """Those that evicted *name*, or evicted one of these, and so on.  O(entries), nothing if nobody did."""
        if name not in self._by:
            return frozenset()
        found: set[str] = set()
        open_ends = [name]
        while open_ends:
            for each in self._by.get(open_ends.pop(), ()):
                if each not in found:
                    found.add(each)
                    open_ends.append(each)
        return frozenset(found)


HolderEntry = tuple[TargetKey, WorkloadState]


class MergedHolders:
    """Several sources of holders as one, in order, worked out as far as somebody has read.

    The sources must not change while it is in use.
    """

    __slots__ = ("_heap", "_known", "_sources")

    def __init__(self, sources: Sequence["HolderSource"]) -> None:
        self._known: list[HolderEntry] = []
        self._sources = sources
        firsts = [(entry_at(each, 0), number) for number, each in enumerate(sources)]
        self._heap = [(entry[0], number, 0) for entry, number in firsts if entry is not None]
        heapify(self._heap)

    def __iter__(self) -> Iterator[HolderEntry]:
        known, at = self._known, 0
        while at < len(known) or self._grow():
            yield known[at]
            at += 1

    def at(self, position: int) -> HolderEntry | None:
        """The entry at *position*, None beyond the last."""
        while position >= len(self._known):
            if not self._grow():
                return None
        return self._known[position]

    def _grow(self) -> bool:
        """Works out one entry more; False if there is none."""
        if not self._heap:
            return False
        _, number, read = self._heap[0]
        source = self._sources[number]
        entry = entry_at(source, read)
        assert entry is not None
        self._known.append(entry)
        following = entry_at(source, read + 1)
        if following is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (following[0], number, read + 1))
        return True


HolderSource = list[HolderEntry] | MergedHolders
"""Holders of quota in the order in which they are tried: of one line, or of many."""

ReachKey = tuple[QuotaNode | None, frozenset[int], bool]


def entry_at(source: HolderSource, position: int) -> HolderEntry | None:
    """The entry of *source* at *position*, None beyond the last."""
    if isinstance(source, MergedHolders):
        return source.at(position)
    return source[position] if position < len(source) else None


class SchedulerContext:
    """*strategies* None: classical preemption.  *gone*: targets of this cycle, which CHARGED counts as gone already.

    *stopping*: how many hold quota and are told to stop.
    """

    def __init__(
        self,
        tree: QueueTree,
        queues: Mapping[str, QueueState],
        settings: Settings,
        system: System,
    ) -> None:
        self.tree = tree
        self.queues = queues
        self.namespaces = system.namespaces
        self.shares = Shares(tree)
        self.strategies: tuple[Strategy, ...] | None = settings.strategies
        self.gates = {**GATES, **settings.gates}
        self.nodes = WorkloadPlacer(system, self.gates)
        self.evicted_by = EvictedBy()
        self.gone: dict[str, WorkloadState] = {}
        self.stopping = 0
        self._queues_in: dict[QuotaNode, list[QueueState]] = {}
        for queue in queues.values():
            self._queues_in.setdefault(queue.leaf.path[-1], []).append(queue)
        self._reach: dict[QuotaNode, dict[ReachKey, MergedHolders]] = {}
        self._shares: dict[QuotaNode, Amount] = {}

    def queues_in(self, root: QuotaNode) -> Sequence[QueueState]:
        """The lines of one tree, by name of the queue."""
        return self._queues_in.get(root, ())

    def changed(self, leaf: QuotaNode) -> None:
        """Something was really added or taken at *leaf*: what is kept of the nodes above it no longer holds."""
        if self._reach or self._shares:
            for node in leaf.path:
                self._reach.pop(node, None)
                self._shares.pop(node, None)

    def share(self, node: QuotaNode) -> Amount:
        """The share of *node* in CHARGED; only while nothing is on trial below it."""
        known = self._shares.get(node)
        if known is None:
            known = self._shares[node] = self.shares.of(node)
        return known

    def reach(
        self, node: QuotaNode, skip: QuotaNode | None, contested: frozenset[int], *, leaving: bool
    ) -> HolderSource:
        """Who holds quota under *node*, but not under its child *skip*, in queues over nominal in something contested.

        Through cohorts that are so too; in the order of `HolderEntry`.  Only while nothing is on trial below *node*.
        """
        if node.kind is Kind.QUEUE:
            queue = self.queues[node.name]
            return queue.leaving if leaving else queue.running
        if skip is not None and not skip.over_nominal(contested):
            skip = None  # nobody would be found there anyway, and so others can use the same list
        key = (skip, contested, leaving)
        kept = self._reach.setdefault(node, {})
        known = kept.get(key)
        if known is None:
            known = kept[key] = MergedHolders(
                [
                    self.reach(child, None, contested, leaving=leaving)
                    for child in node.children
                    if child is not skip and child.over_nominal(contested)
                ]
            )
        return known


def level_of(leaf: QuotaNode, index: int, amount: int, layer: int = CHARGED) -> tuple[int, bool]:
    """How far up *leaf* borrows for *amount* more: the height of the smallest subtree above it that has enough, 0 if it need not.

    And whether that subtree is less than the whole tree, so that something of it may be taken back.
    """
    usage = leaf.usage[layer][index]
    if leaf.parent is None or usage + amount <= leaf.nominal[index]:
        return 0, leaf.parent is not None
    amount -= max(0, leaf.local[index] - usage)
    for node in leaf.path[1:]:
        used = node.usage[layer][index]
        if used + amount <= node.subtree[index]:
            return node.height, node.parent is not None
        amount -= max(0, node.local[index] - used)
    return leaf.path[-1].height, False


def put_back(workloads: Iterable[WorkloadState]) -> None:
    """*workloads* count again in decisions."""
    for workload in workloads:
        add(workload.leaf, workload.request, CHARGED)
        if workload.reservations:
            reserve(workload.reservations)


def put_back_on_trial(workloads: Iterable[WorkloadState]) -> None:
    """The same, of those whose quota was taken on trial."""
    for workload in workloads:
        add_on_trial(workload.leaf, workload.request, CHARGED)


def take_away(workload: WorkloadState) -> None:
    """*workload* is taken as gone in decisions."""
    take(workload.leaf, workload.request, CHARGED)
    if workload.reservations:
        release(workload.reservations)


def over_nominal(node: QuotaNode, contested: Iterable[int]) -> bool:
    """The subtree holds more than it brings, of something contested."""
    usage, subtree = node.usage[CHARGED], node.subtree
    for index in contested:  # noqa: SIM110  (a loop: this is asked for every candidate)
        if usage[index] > subtree[index]:
            return True
    return False
