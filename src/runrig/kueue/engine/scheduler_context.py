"""The state that all steps of a cycle share: trees, queues, shares, settings, and the record of evictions (rule R5)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from heapq import merge
from itertools import groupby, tee
from operator import attrgetter

from runrig.domain.kueue import Settings, Strategy
from runrig.engine.quota.quota_node import CHARGED, LAYERS, QuotaLeaf, QuotaNode, Request, add, add_everywhere, take
from runrig.engine.quota.share import Amount, Shares
from runrig.engine.quota.together import Change, change_together
from runrig.kueue.declared import GATES as KNOWN_GATES
from runrig.kueue.declared import System
from runrig.kueue.engine.cluster_queue import HolderEntry, QueueState
from runrig.kueue.engine.node_tree import Reservation, release, reserve
from runrig.kueue.engine.queue_tree import QueueTree
from runrig.kueue.engine.workload import WorkloadState
from runrig.kueue.engine.workload_placement import WorkloadPlacer

_HOLDS = attrgetter("leaf", "request")

DECIDED = (CHARGED,)
"""The layer that counts in decisions."""

GATES: Mapping[str, bool] = {name: on for name, on in KNOWN_GATES.items() if on is not None}
"""Feature gates that affect decisions here, with their defaults."""

PREEMPTORS_FIRST = "PrioritizePreemptorWorkloads"
"""A gate that is off by default, and matters only without rule R5, which is stricter."""


class EvictedBy:
    """Which workload evicted which.

    Evictions never form a cycle (rule R5): a workload cannot evict one that evicted it, directly or indirectly.
    """

    def __init__(self) -> None:
        self._by: dict[str, frozenset[str]] = {}
        self._of: dict[str, set[str]] = {}

    def note(self, targets: Collection[str], by: str) -> None:
        self._of.setdefault(by, set()).update(targets)
        alone = frozenset((by,))  # shared by all targets
        for target in targets:
            known = self._by.setdefault(target, alone)
            if known is not alone:
                self._by[target] = known | alone

    def forget(self, name: str) -> None:
        """Removes *name*, which has ended, from the record."""
        for by in self._by.pop(name, ()):
            self._of[by].discard(name)
        for target in self._of.pop(name, ()):
            self._by[target] -= {name}

    def safe_from(self, name: str) -> frozenset[str]:
        """The workloads that evicted *name*, directly or indirectly. O(entries); free if there are none."""
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


class Holders:
    """Holders of quota from several *sources*, in order, read only as far as needed, and cached for the next reader.

    The sources must not change in the meantime.
    """

    __slots__ = ("_unread",)

    def __init__(self, sources: Sequence[Iterable[HolderEntry]]) -> None:
        (self._unread,) = tee(merge(*sources) if len(sources) > 1 else sources[0], 1)

    def __iter__(self) -> Iterator[HolderEntry]:
        return copy(self._unread)


Away = tuple[Sequence[Change], Sequence[Reservation]]
"""(usage of targets in the trees, their reservations on nodes)."""

ReachKey = tuple[QuotaNode | None, QuotaNode | None, frozenset[int], bool]
"""Cache key of a list of holders.

(the node where an upward search starts, None for a search in one cohort; the child to skip; contested indices; whether
the holders are stopping).
"""


class SchedulerContext:
    """The state that all steps of a cycle share.

    *strategies* None: classical preemption. *gone*: name → target of this cycle, which no longer counts in CHARGED.
    *stopping*: number of workloads that use quota and were asked to stop. *as_peer*: rule R5 does not apply.
    *preemptors_first*: heads that wait for their targets are served first.
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
        self.as_peer = settings.as_peer
        self.preemptors_first = settings.as_peer and settings.gates.get(PREEMPTORS_FIRST, False)
        self.nodes = WorkloadPlacer(system, self.gates)
        self.evicted_by = EvictedBy()
        self.gone: dict[str, WorkloadState] = {}
        self.stopping = 0
        self._queues_in: dict[QuotaNode, list[QueueState]] = {}
        for queue in queues.values():
            self._queues_in.setdefault(queue.leaf.path[-1], []).append(queue)
        self._keeping = {queue.leaf.path[-1] for queue in queues.values() if queue.leaf.keeps}
        self._reach: dict[QuotaNode, dict[ReachKey, Iterable[HolderEntry] | None]] = {}
        self._stale: set[QuotaNode] = set()
        self._shares: dict[QuotaNode, Amount] = {}

    def heads(self) -> list[WorkloadState]:
        """Removes and returns the next workload of every open queue, sorted by queue name. O(queues with workloads in
        line).
        """
        in_line = self._in_line
        return [head for name in sorted(in_line) if (head := in_line[name].pop()) is not None]

    def queues_in(self, root: QuotaNode) -> Sequence[QueueState]:
        """The queues of one tree, sorted by name."""
        return self._queues_in.get(root, ())

    def hold(
        self, leaf: QuotaLeaf, request: Request, reservations: Sequence[Reservation], layers: Sequence[int] = LAYERS
    ) -> None:
        """Counts *request* at *leaf* and *reservations* on their nodes."""
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

    def take_as_gone(self, targets: Collection[WorkloadState]) -> Away:
        """Excludes the usage of *targets* from decisions, although they keep it until they have stopped."""
        runs = [(*held, len(list(alike))) for held, alike in groupby(targets, _HOLDS)]
        reservations = [each for target in targets for each in target.reservations]
        self.change([(leaf, request, -count) for leaf, request, count in runs])
        release(reservations)
        return runs, reservations

    def count_again(self, away: Away) -> None:
        """The inverse of `take_as_gone`."""
        held, reservations = away
        self.change(held)
        reserve(reservations)

    @contextmanager
    def nobody_gone(self, away: Collection[Away]) -> Iterator[None]:
        """Within this context, the targets of this cycle count again and can be chosen, because they have not stopped
        yet.

        *away*: what `take_as_gone` returned for them.
        """
        for held, nodes in away:
            self.count_again((held, nodes))
        for workload in self.gone.values():
            self.queues[workload.queue].put_back(workload)
        yield
        for workload in self.gone.values():
            self.queues[workload.queue].set_aside(workload)
        for held, nodes in away:
            self.change([(leaf, request, -count) for leaf, request, count in held])
            release(nodes)

    def change(self, changes: Collection[Change]) -> None:
        """Applies *changes* to the usage that decisions see."""
        change_together(changes)
        self.changed(*[leaf for leaf, _, _ in changes])

    def plain(self, leaf: QuotaLeaf, request: Request) -> bool:
        """Whether only the free quota of the whole tree limits *request* at *leaf*, and all usage counts up to the
        root.
        """
        if leaf.guarded or leaf.path[-1] in self._keeping:
            return False
        for index, _ in request:  # noqa: SIM110  (a loop is faster, and every search calls this)
            if leaf.limits[index]:
                return False
        return True

    def changed(self, *leaves: QuotaNode) -> None:
        """Invalidates cached values of *leaves* and their ancestors after a lasting change of usage or candidates."""
        if self._reach or self._shares:
            self._stale.update(leaves)

    def _drop_stale(self) -> None:
        """Drops invalid cache entries. Called on the next read, because many invalidated entries are never read."""
        for node in {node for leaf in self._stale for node in leaf.path}:
            self._reach.pop(node, None)
            self._shares.pop(node, None)
        self._stale.clear()

    def share(self, node: QuotaNode) -> Amount:
        """The share of *node* in CHARGED. Cached: call it only while no temporary change is in effect below *node*."""
        if self._stale:
            self._drop_stale()
        known = self._shares.get(node)
        if known is None:
            known = self._shares[node] = self.shares.of(node)
        return known

    def reach(
        self, node: QuotaNode, skip: QuotaNode | None, contested: frozenset[int], *, leaving: bool
    ) -> Iterable[HolderEntry] | None:
        """The holders below *node*, but not below its child *skip*, that were granted something contested.

        Only open queues that exceed their nominal quota count, and only if every cohort between them and *node* exceeds
        its own.
        Returns None if there are certainly none. Below a cohort, the result can be iterated repeatedly.
        Cached: call it only while no temporary change is in effect below *node*.
        """
        if isinstance(node, QuotaLeaf):
            queue = self.queues[node.name]
            return (queue.granted(contested, leaving=leaving) or None) if queue.open else None
        if skip is not None and not skip.over_nominal(contested):
            skip = None  # *skip* would exclude nothing here, and without it more searches share a cache entry
        if self._stale:
            self._drop_stale()
        key = (None, skip, contested, leaving)
        kept = self._reach.setdefault(node, {})
        if key not in kept:
            sources = []
            for child in node.over:
                if child is not skip and child.over_nominal(contested):
                    source = self.reach(child, None, contested, leaving=leaving)
                    if source is not None:
                        sources.append(source)
            kept[key] = Holders(sources) if sources else None
        return kept[key]

    def reach_beyond(
        self, below: QuotaNode, contested: frozenset[int], *, leaving: bool
    ) -> Iterable[HolderEntry] | None:
        """What `reach` finds above *below*: at each cohort up to the root, the holders outside the child already
        visited.

        Cached at the root, because the whole tree affects the result.
        """
        node = below.parent
        if node is None:
            return None
        if self._stale:
            self._drop_stale()
        skip = below if below.over_nominal(contested) else None
        kept, key = self._reach.setdefault(node.path[-1], {}), (node, skip, contested, leaving)
        if key not in kept:
            near = self.reach(node, skip, contested, leaving=leaving)
            far = self.reach_beyond(node, contested, leaving=leaving)
            kept[key] = far if near is None else near if far is None else Holders((near, far))
        return kept[key]


def level_of(leaf: QuotaNode, index: int, amount: int) -> tuple[int, bool]:
    """(borrowing level of *leaf* for *amount* more, whether it is below the root's).

    The level is the height of the smallest subtree with enough quota; 0 means that *leaf* does not need to borrow.
    Below the root, some quota outside that subtree can be reclaimed.
    """
    usage = leaf.usage[CHARGED][index]
    if leaf.parent is None or usage + amount <= leaf.nominal[index]:
        return 0, leaf.parent is not None
    amount -= max(0, leaf.local[index] - usage)
    for node in leaf.path[1:]:
        used = node.usage[CHARGED][index]
        if used + amount <= node.subtree[index]:
            return node.height, node.parent is not None
        amount -= max(0, node.local[index] - used)
    return leaf.path[-1].height, False
