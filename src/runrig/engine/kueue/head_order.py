"""The order in which the heads of a cycle are served, classical and fair.

A preemptor whose targets have gone comes first (law R5).  Then, classical: less far borrowing, higher priority, longer queued.
Fair: a tournament from the root down, won at each level by the head that leaves its subtree with the lower share.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from runrig.engine.kueue.scheduler_context import SchedulerContext
from runrig.engine.kueue.workload import FlavorAssignment, WorkloadState, WorkloadTarget
from runrig.engine.quota.quota_node import REAL, QuotaNode, add_on_trial, take_on_trial
from runrig.engine.quota.share import Amount


@dataclass(slots=True)
class Nomination:
    """A head of this cycle and what was found for it.  *promised*: it is a preemptor whose targets have gone."""

    workload: WorkloadState
    assigned: FlavorAssignment
    targets: tuple[WorkloadTarget, ...] = ()
    promised: bool = False


SortKey = tuple[bool, int, int, float, str, str]


def in_classical_order(context: SchedulerContext, entries: Iterable[Nomination]) -> list[Nomination]:
    by_priority = context.gates["PrioritySortingWithinCohort"]

    def key(entry: Nomination) -> SortKey:
        minus_priority, queued_at, uid, name = entry.workload.key
        return (not entry.promised, entry.assigned.level, minus_priority if by_priority else 0, queued_at, uid, name)

    return sorted(entries, key=key)


def in_fair_order(context: SchedulerContext, entries: Iterable[Nomination]) -> Iterator[Nomination]:
    """Yields the entries one by one; what the consumer did with one counts when the next is chosen.

    Queues without a cohort come first, then tree by tree.
    """
    by_root: dict[QuotaNode, list[Nomination]] = {}
    for entry in entries:
        by_root.setdefault(entry.workload.leaf.path[-1], []).append(entry)
    for root in sorted(by_root, key=lambda node: (node.parent is None and bool(node.children), node.name)):
        if root.children:
            yield from _Tournament(context, by_root[root])
        else:
            yield from by_root[root]


MatchKey = tuple[bool, bool, Amount, int, float, str, str]


class _Tournament:
    """The entries of one tree.  Each cohort keeps its children's champions in a heap.

    Serving an entry changes shares only on its own path, so each costs O(depth x (resources + log children)), however many
    heads there are.
    """

    def __init__(self, context: SchedulerContext, entries: Iterable[Nomination]) -> None:
        self._shares = context.shares
        self._by_borrowing = context.gates["FairSharingPrioritizeNonBorrowing"]
        self._champion: dict[QuotaNode, Nomination | None] = {}
        self._heaps: dict[QuotaNode, list[tuple[MatchKey, int, QuotaNode]]] = {}
        self._stamps: dict[QuotaNode, int] = {}
        self._count = 0
        levels: dict[QuotaNode, int] = {}
        for entry in entries:
            path = entry.workload.leaf.path
            self._champion[path[0]] = entry
            levels.update((node, len(node.path)) for node in path)
        for node in sorted(levels, key=lambda node: -levels[node]):
            self._advance(node)
        self._root = min(levels, key=lambda node: levels[node])

    def __iter__(self) -> Iterator[Nomination]:
        while (entry := self._champion[self._root]) is not None:
            path = entry.workload.leaf.path
            self._champion[path[0]] = None
            yield entry
            for node in path:
                self._advance(node)

    def _advance(self, node: QuotaNode) -> None:
        """Finds the champion of *node* again and enters it in the match at its parent."""
        heap = self._heaps.get(node)
        if heap is not None:
            while heap and self._stamps[heap[0][2]] != heap[0][1]:
                heappop(heap)
            self._champion[node] = self._champion[heap[0][2]] if heap else None
        self._count += 1
        self._stamps[node] = self._count
        champion = self._champion[node]
        if champion is not None and node.parent is not None:
            entered = (self._key(node, champion), self._count, node)
            heappush(self._heaps.setdefault(node.parent, []), entered)
        elif node.parent is not None:
            self._heaps.setdefault(node.parent, [])

    def _key(self, node: QuotaNode, entry: Nomination) -> MatchKey:
        """The key of *entry* as champion of *node* in the match at its parent, its request counted; lower wins."""
        leaf, request = entry.workload.leaf, entry.assigned.request
        add_on_trial(leaf, request, REAL)
        usage, subtree = node.usage[REAL], node.subtree
        borrows = self._by_borrowing and any(usage[index] > subtree[index] for index, _ in request)
        share = self._shares.of(node, REAL)
        take_on_trial(leaf, request, REAL)
        return (not entry.promised, borrows, share, *entry.workload.key)
