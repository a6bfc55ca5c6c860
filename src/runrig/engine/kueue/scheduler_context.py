"""What every step of a cycle shares: trees, queues, shares, settings, and the record of who evicted whom (law R5)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge

from runrig.domain.kueue import Settings, Strategy, System
from runrig.engine.kueue.cluster_queue import QueueState
from runrig.engine.kueue.node_tree import Reservation, release, reserve
from runrig.engine.kueue.workload import TargetKey, WorkloadState
from runrig.engine.kueue.workload_placement import WorkloadPlacer
from runrig.engine.quota.queue_tree import QueueTree
from runrig.engine.quota.quota_node import (
    CHARGED,
    LAYERS,
    Kind,
    QuotaLeaf,
    QuotaNode,
    Request,
    add,
    add_everywhere,
    take,
)
from runrig.engine.quota.share import Amount, Shares

DECIDED = (CHARGED,)
"""The one layer that decisions count."""

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
"""Feature gates that change decisions here, with their defaults."""


class EvictedBy:
    """Who evicted whom.  No preemption closes a circle (law R5): a workload cannot take one that evicted it, directly or not."""

    def __init__(self) -> None:
        self._by: dict[str, set[str]] = {}
        self._of: dict[str, set[str]] = {}

    def note(self, target: str, by: str) -> None:
        self._by.setdefault(target, set()).add(by)
        self._of.setdefault(by, set()).add(target)

    def forget(self, name: str) -> None:
        """Removes *name*, which has ended, from the record."""
        for by in self._by.pop(name, ()):
            self._of[by].discard(name)
        for target in self._of.pop(name, ()):
            self._by[target].discard(name)

    def safe_from(self, name: str) -> frozenset[str]:
        """The workloads that evicted *name*, or evicted one of these, and so on.  O(entries); free if none did."""
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
    """Several sources of holders as one, in order, read only as far as somebody asks, and kept for whoever reads it next.

    The sources must not change while it is in use.
    """

    __slots__ = ("_known", "_rest")

    def __init__(self, sources: Sequence["HolderSource"]) -> None:
        self._known: list[HolderEntry] = []
        self._rest = merge(*sources)

    def __iter__(self) -> Iterator[HolderEntry]:
        known, place = self._known, 0
        while True:
            if place == len(known):
                following = next(self._rest, None)
                if following is None:
                    return
                known.append(following)
            yield known[place]
            place += 1


HolderSource = Sequence[HolderEntry] | MergedHolders
"""Who holds quota, in the order in which candidates are tried: of one queue, or of many.  False if there certainly is nobody."""


def merged(sources: Iterable[HolderSource]) -> HolderSource:
    """Several *sources* as one; they must not change while it is in use."""
    some = [source for source in sources if source]
    return MergedHolders(some) if len(some) > 1 else some[0] if some else ()


ReachKey = tuple[QuotaNode | None, frozenset[int], bool]


class SchedulerContext:
    """*strategies* None: classical preemption.  *gone*: targets of this cycle, which no longer count in CHARGED, by name.

    *stopping*: how many workloads hold quota and have been told to stop.
    """

    def __init__(
        self,
        tree: QueueTree,
        queues: Mapping[str, QueueState],
        in_line: Mapping[str, QueueState],
        settings: Settings,
        system: System,
    ) -> None:
        self.tree = tree
        self.queues = queues
        self._in_line = in_line
        self.namespaces = system.namespaces
        self.shares = Shares(tree.keys)
        self.strategies: tuple[Strategy, ...] | None = settings.strategies
        self.gates = {**GATES, **settings.gates}
        self.nodes = WorkloadPlacer(system, self.gates)
        self.evicted_by = EvictedBy()
        self.gone: dict[str, WorkloadState] = {}
        self.stopping = 0
        self._queues_in: dict[QuotaNode, list[QueueState]] = {}
        for queue in queues.values():
            self._queues_in.setdefault(queue.leaf.path[-1], []).append(queue)
        self._reach: dict[QuotaNode, dict[ReachKey, HolderSource]] = {}
        self._shares: dict[QuotaNode, Amount] = {}

    def heads(self) -> list[WorkloadState]:
        """Takes the next workload of every open queue out of its line, by name of the queue.  O(queues with somebody in line)."""
        in_line = self._in_line
        return [head for name in sorted(in_line) if (head := in_line[name].pop()) is not None]

    def queues_in(self, root: QuotaNode) -> Sequence[QueueState]:
        """The queues of one tree, sorted by name."""
        return self._queues_in.get(root, ())

    def hold(
        self, leaf: QuotaLeaf, request: Request, reservations: Sequence[Reservation], layers: Sequence[int] = LAYERS
    ) -> None:
        """*request* counts at *leaf* from now on, and *reservations* on their nodes."""
        if layers is LAYERS:
            add_everywhere(leaf, request)
        else:
            for layer in layers:
                add(leaf, request, layer)
        if reservations:
            reserve(reservations)
        self.changed(leaf)

    def give_back(
        self, leaf: QuotaLeaf, request: Request, reservations: Sequence[Reservation], layers: Sequence[int] = LAYERS
    ) -> None:
        """The inverse of `hold`."""
        for layer in layers:
            take(leaf, request, layer)
        release(reservations)
        self.changed(leaf)

    def take_as_gone(self, targets: Collection[WorkloadState]) -> None:
        """What *targets* hold no longer counts in decisions, although they hold it until they have stopped."""
        for leaf, request in _held_together(targets):
            take(leaf, request, CHARGED)
        for target in targets:
            release(target.reservations)
        self.changed(*[target.leaf for target in targets])

    def count_again(self, targets: Collection[WorkloadState]) -> None:
        """The inverse of `take_as_gone`."""
        for leaf, request in _held_together(targets):
            add(leaf, request, CHARGED)
        for target in targets:
            reserve(target.reservations)
        self.changed(*[target.leaf for target in targets])

    def changed(self, *leaves: QuotaNode) -> None:
        """Usage or candidates at *leaves* changed, not only on trial: drops what is cached of the nodes above them."""
        if self._reach or self._shares:
            for node in {node for leaf in set(leaves) for node in leaf.path}:
                self._reach.pop(node, None)
                self._shares.pop(node, None)

    def share(self, node: QuotaNode) -> Amount:
        """The share of *node* in CHARGED, cached.  Call it only while nothing is on trial below *node*."""
        known = self._shares.get(node)
        if known is None:
            known = self._shares[node] = self.shares.of(node)
        return known

    def reach(
        self, node: QuotaNode, skip: QuotaNode | None, contested: frozenset[int], *, leaving: bool
    ) -> HolderSource:
        """Holders of quota under *node* but not under its child *skip*, in open queues over nominal in something contested.

        Every cohort on the way down is over nominal too.  Cached; call it only while nothing is on trial below *node*.
        """
        if node.kind is Kind.QUEUE:
            queue = self.queues[node.name]
            if not queue.open:
                return ()
            return queue.leaving if leaving else queue.running
        if skip is not None and not skip.over_nominal(contested):
            skip = None  # nobody would be found there anyway, and so others can use the same list
        key = (skip, contested, leaving)
        kept = self._reach.setdefault(node, {})
        known = kept.get(key)
        if known is None:
            known = kept[key] = merged(
                [
                    self.reach(child, None, contested, leaving=leaving)
                    for child in node.over
                    if child is not skip and child.over_nominal(contested)
                ]
            )
        return known


def _held_together(workloads: Iterable[WorkloadState]) -> Iterator[tuple[QuotaLeaf, Request]]:
    """What *workloads* hold of the trees; those of a queue that hold the same as one, as usage counts a sum like its parts."""
    counts: dict[tuple[QuotaLeaf, Request], int] = {}
    for workload in workloads:
        key = workload.leaf, workload.request
        counts[key] = counts.get(key, 0) + 1
    for (leaf, request), count in counts.items():
        yield leaf, tuple([(index, count * amount) for index, amount in request])


def level_of(leaf: QuotaNode, index: int, amount: int, layer: int = CHARGED) -> tuple[int, bool]:
    """How far up *leaf* borrows for *amount* more: the height of the smallest subtree above it that has enough; 0: it need not.

    Also whether that subtree is less than the whole tree, so that some of it may be reclaimed.
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
