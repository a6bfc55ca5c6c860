"""The order in which the heads of a cycle are served, classical and fair.

A preemptor whose targets have stopped comes first (rule R5). Classical order: lower borrowing level, higher priority, longer in
the queue. Fair order: a tournament from the root down, won at each level by the head that leaves its subtree with the lower
share.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from runrig.engine.quota.quota_node import REAL, QuotaLeaf, QuotaNode, add_on_trial, take_on_trial
from runrig.engine.quota.share import Amount
from runrig.engine.quota.tournament import Tournament
from runrig.kueue.engine.scheduler_context import SchedulerContext
from runrig.kueue.engine.workload import FlavorAssignment, QueueKey, WorkloadState, WorkloadTarget


@dataclass(slots=True)
class Nomination:
    """A head of this cycle and what was found for it. `promised`: its targets have stopped, and what they freed is
    reserved for it.
    """

    workload: WorkloadState
    assigned: FlavorAssignment
    targets: tuple[WorkloadTarget, ...] = ()
    promised: bool = False


def in_classical_order(context: SchedulerContext, entries: Iterable[Nomination]) -> list[Nomination]:
    by_priority = context.gates["PrioritySortingWithinCohort"]

    def key(entry: Nomination) -> tuple[bool, int, QueueKey]:
        place = entry.workload.key
        return not entry.promised, entry.assigned.level, place if by_priority else (0, *place[1:])

    return sorted(entries, key=key)


def in_fair_order(context: SchedulerContext, entries: Iterable[Nomination]) -> Iterator[Nomination]:
    """Yields the entries one by one; the effect of one is taken into account for the next.

    Queues without a cohort come first, then tree by tree.
    """
    by_root: dict[QuotaNode, dict[QuotaLeaf, list[tuple[QueueKey, Nomination]]]] = {}
    for entry in entries:
        leaf = entry.workload.leaf
        by_root.setdefault(leaf.path[-1], {})[leaf] = [(entry.workload.key, entry)]
    rank = partial(_rank, context)
    for root in sorted(by_root, key=lambda node: (node.parent is None and bool(node.children), node.name)):
        if root.children:
            yield from Tournament(root, by_root[root], rank)
        else:
            yield from (entry for ((_, entry),) in by_root[root].values())


def _rank(context: SchedulerContext, node: QuotaNode, entry: Nomination) -> tuple[bool, bool, Amount]:
    """The rank of *node* in the tournament at its parent, with *entry* as its head, whose request counts; lower wins.

    Serving an entry changes shares only on its own path. O(depth × resources).
    """
    leaf, request = entry.workload.leaf, entry.assigned.request
    add_on_trial(leaf, request, REAL)
    usage, subtree = node.usage[REAL], node.subtree
    by_borrowing = context.gates["FairSharingPrioritizeNonBorrowing"]
    borrows = by_borrowing and any(usage[index] > subtree[index] for index, _ in request)
    share = context.shares.of(node, REAL)
    take_on_trial(leaf, request, REAL)
    return not entry.promised, borrows, share
