"""Why a workflow waits: its place in the queue, the first law that blocks each choice of flavors, and who it waits for.

Computed on demand from the live state, never kept.
"""

from dataclasses import dataclass
from heapq import nsmallest

from runrig.domain.gangs import GangState, Placement
from runrig.domain.pools import Queueing
from runrig.domain.reasons import Code, Reason
from runrig.domain.workflows import Group, Status
from runrig.engine.balance import CHARGED, Kind, TreeNode, binding, left_at
from runrig.engine.fit import find_place, settle
from runrig.engine.flavors import choices, wanted
from runrig.engine.ledger import Entry, Ledger
from runrig.engine.order import waiting_in_order
from runrig.engine.partial import least_counts
from runrig.engine.placement import most_pods, place
from runrig.engine.state import State

MOST_HOLDERS = 5
"""How many of the gangs that hold a quota a reason names."""


@dataclass(frozen=True, slots=True)
class GroupWhy:
    """*position*: 1 is the head of its pool's queue, None if it does not wait there; *ahead*: gangs before it in all pools.

    *reasons*: one per choice of flavors, of the smallest gang that it accepts; empty if nothing blocks it.
    """

    group: str
    status: Status
    position: int | None = None
    ahead: int | None = None
    reasons: tuple[Reason, ...] = ()
    waits_for: tuple[str, ...] = ()
    preempted_by: str | None = None


@dataclass(frozen=True, slots=True)
class Why:
    workflow: str
    groups: tuple[GroupWhy, ...]


def why(state: State, workflow: str) -> Why:
    """Of a live workflow.  O(pending + nodes)."""
    order = waiting_in_order(state.ledger)
    return Why(workflow, tuple(_group(state, group, order) for group in state.groups_of(workflow)))


def _group(state: State, group: Group, order: list[Entry]) -> GroupWhy:
    if group.status is Status.WAITING:
        upstream = state.group_spec((group.workflow, group.name)).upstream
        before = tuple(name for name in upstream if state.groups[group.workflow, name].status is not Status.COMPLETED)
        return GroupWhy(group.name, group.status, reasons=(Reason(Code.UPSTREAM, "W1", holders=before),))
    entry = state.ledger.entries.get(group.gang_id)
    if entry is None:
        return GroupWhy(group.name, group.status)
    if entry.state is GangState.NOMINATED:
        left = tuple(name for name in entry.waits_for if name in state.ledger.entries)
        return GroupWhy(group.name, group.status, 0, 0, (Reason(Code.WAITS_FOR_TARGETS, "R4", holders=left),), left)
    if entry.state is not GangState.PENDING:
        return GroupWhy(group.name, group.status, preempted_by=entry.preempted_by)
    same_pool = [each for each in order if each.gang.pool == entry.gang.pool]
    reasons = explain(state.ledger, entry, same_pool)
    return GroupWhy(group.name, group.status, same_pool.index(entry) + 1, order.index(entry), reasons)


def explain(ledger: Ledger, entry: Entry, same_pool: list[Entry]) -> tuple[Reason, ...]:
    """The first law that blocks, per choice of flavors, counting what is decided (nominated gangs in, their targets out)."""
    leaf = ledger.leaf(entry)
    if not leaf.active:
        return (Reason(Code.COHORT_CYCLE, "Q5", where=_name(leaf)),)
    head = _strict_head(ledger, same_pool)
    if head is not None and head is not entry:
        return (Reason(Code.BEHIND_HEAD, "P4", where=entry.gang.pool, holders=(head.gang.id,)),)
    least = least_counts(entry.gang.pod_sets)
    found = [_blocking(ledger, entry, choice) for choice in choices(ledger, entry, least)]
    if None not in found:
        return tuple(dict.fromkeys(reason for reason in found if reason is not None))
    if find_place(ledger, entry, least) is None:
        leaving = tuple(sorted(name for name, each in ledger.stopping.items() if not each.charged))
        return (Reason(Code.WAITS_FOR_TARGETS, "R4", holders=leaving),)
    return (Reason(Code.NOT_CONSIDERED, "P5"),)


def _strict_head(ledger: Ledger, same_pool: list[Entry]) -> Entry | None:
    """Whom nobody of the pool may pass; None if its queue is not strict."""
    pool = same_pool[0].gang.pool
    if ledger.pools[pool].queueing is not Queueing.STRICT_FIFO:
        return None
    placed = [each for each in ledger.nominated.values() if each.gang.pool == pool]
    return min(placed, key=lambda each: each.order, default=same_pool[0])


def _blocking(ledger: Ledger, entry: Entry, choice: Placement) -> Reason | None:
    leaf = ledger.leaf(entry)
    for index, amount in ledger.request_of(entry, choice):
        reason = _quota_reason(ledger, leaf, index, amount)
        if reason is not None:
            return reason
    if settle(ledger, entry, choice) is not None:
        return None
    asks = wanted(entry, choice)
    need = sum(each.pods for each in asks)
    if not place(ledger.room, asks, (CHARGED,)).proven:
        return Reason(Code.PLACEMENT_NOT_PROVEN, "T1", resource=choice[0].flavor, need=need)
    have = min(need - 1, sum(most_pods(ledger.room, each, (CHARGED,)) for each in asks))
    return Reason(Code.NO_ROOM_ON_NODES, "T1", resource=choice[0].flavor, have=have, need=need)


def _quota_reason(ledger: Ledger, leaf: TreeNode, index: int, amount: int) -> Reason | None:
    key = str(ledger.tree.keys[index])
    if leaf.kind is Kind.FIRM:
        for pool, left in [
            (leaf, leaf.balance(index, CHARGED)),
            *((pool, _firm_left(pool, index)) for pool in leaf.capping),
        ]:
            if amount > left:
                return Reason(Code.QUOTA_FULL, "P2", pool.name, key, left, amount, _firm_holders(ledger, pool, index))
    node = binding(leaf, index, amount)
    if node is None:
        return None
    have = left_at(leaf, node, index)
    if node.room[index] is not None:
        return Reason(Code.BORROWING_LIMIT, "Q3", _name(node), key, have, amount)
    return Reason(Code.NO_IDLE_TO_BORROW, "Q3", _name(node), key, have, amount)


def _firm_holders(ledger: Ledger, pool: TreeNode, index: int) -> tuple[str, ...]:
    """Firm gangs that count against *pool*, a firm leaf or a pool with subpools: largest first, then id.  O(gangs)."""
    held = []
    for entry in ledger.entries.values():
        if entry.charged and entry.bucket.firm:
            leaf = ledger.leaf(entry)
            amount = dict(entry.request).get(index, 0)
            if amount and (leaf is pool or pool in leaf.capping):
                held.append((-amount, entry.gang.id))
    return tuple(gang for _, gang in nsmallest(MOST_HOLDERS, held))


def _firm_left(pool: TreeNode, index: int) -> int:
    return pool.nominal[index] - pool.used[CHARGED][index]


def _name(node: TreeNode) -> str:
    if node.kind is Kind.ROOT:
        return "the cluster"
    return f"{'cohort' if node.kind is Kind.COHORT else 'pool'} {node.name}"
