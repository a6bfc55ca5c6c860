"""Why a workflow waits: what the next cycle does with it, its position in the queue, and the first law that blocks each choice of flavors.

Computed on demand from the live state, never stored.
"""

from dataclasses import dataclass, replace
from heapq import nsmallest

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import GangState, Placement
from runrig.domain.pools import Queueing
from runrig.domain.reasons import Code, Reason
from runrig.domain.workflows import Group, Status
from runrig.engine.explain.shortage import shortage
from runrig.engine.ledger.fit import place_on_nodes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import choices_left_out, flavor_choices, pod_requests
from runrig.engine.ledger.queue import Entry
from runrig.engine.placement.partial import least_counts
from runrig.engine.placement.place import place, pods_that_fit
from runrig.engine.preemption.targets import Targets
from runrig.engine.quota.guarantees import shared_by
from runrig.engine.quota.numbers import binding, left_at
from runrig.engine.quota.quota_node import CHARGED, Kind, QuotaLeaf, QuotaNode, left_for_firm, left_of_promise
from runrig.engine.scheduling.admission import look_at
from runrig.engine.scheduling.queue_order import ahead_of, head_of
from runrig.engine.scheduling.verdicts import next_turn
from runrig.engine.state.state import State

MOST_HOLDERS = 5
"""How many gangs that hold a quota a reason names."""


@dataclass(frozen=True, slots=True)
class GroupWhy:
    """Why one group waits.

    *verdict*: what the next cycle does with it; None if it is not queued, or somebody before it has not been looked at yet.
    *stops*: the gangs that it starts after, with that verdict.
    *position*: in its pool's queue, 1 for the head, 0 if nominated; None if it is not queued.  *ahead*: gangs before it in all pools.
    *reasons*: one per choice of flavors, for the smallest gang that it accepts; empty if nothing blocks it.
    *waits_for*: gangs that must stop first.  *preempted_by*: the gang that preempted it; None if it was not preempted.
    """

    group: str
    status: Status
    position: int | None = None
    ahead: int | None = None
    reasons: tuple[Reason, ...] = ()
    waits_for: tuple[str, ...] = ()
    preempted_by: str | None = None
    verdict: Verdict | None = None
    stops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    workflow: str
    groups: tuple[GroupWhy, ...]


def why(state: State, workflow: str) -> Why:
    """The reasons of each group of a live workflow.  O(buckets x log pending + nodes)."""
    return Why(workflow, tuple(_group(state, group) for group in state.groups_of(workflow)))


def _group(state: State, group: Group) -> GroupWhy:
    if group.status is Status.WAITING:
        upstream = state.group_spec((group.workflow, group.name)).upstream
        before = tuple(name for name in upstream if state.groups[group.workflow, name].status is not Status.COMPLETED)
        upstream_reason = Reason(Code.UPSTREAM, "W1", holders=before)
        return GroupWhy(group.name, group.status, reasons=(upstream_reason,), verdict=Verdict.WAITS)
    entry = state.ledger.entries.get(group.gang_id)
    if entry is None:
        return GroupWhy(group.name, group.status)
    if entry.state not in (GangState.PENDING, GangState.NOMINATED):
        return GroupWhy(group.name, group.status, preempted_by=entry.preempted_by)
    turn = next_turn(state.ledger, entry)
    if entry.state is GangState.NOMINATED:
        left = tuple(name for name in entry.waits_for if name in state.ledger.entries)
        reasons = () if turn.start else (Reason(Code.WAITS_FOR_TARGETS, "R4", holders=left),)
        return GroupWhy(group.name, group.status, 0, 0, reasons, left, verdict=turn.verdict)
    everywhere, in_pool = ahead_of(state.ledger, entry)
    found = GroupWhy(group.name, group.status, in_pool + 1, everywhere, verdict=turn.verdict)
    if turn.verdict is None:
        return replace(found, reasons=(Reason(Code.NOT_CONSIDERED, "P5"),))
    if turn.start is not None:
        return replace(found, stops=turn.start.gangs if isinstance(turn.start, Targets) else ())
    return replace(found, reasons=explain(state.ledger, entry))


def explain(ledger: Ledger, entry: Entry) -> tuple[Reason, ...]:
    """The first law that blocks *entry*, per choice of flavors.

    Counts what is decided: nominated gangs as present, their targets as gone.
    """
    leaf = ledger.leaf(entry)
    if not leaf.active:
        return (Reason(Code.COHORT_CYCLE, "Q5", where=_name(leaf)),)
    head = _strict_head(ledger, entry.gang.pool)
    if head is not None and head is not entry:
        return (Reason(Code.BEHIND_HEAD, "P4", where=entry.gang.pool, holders=(head.gang.id,)),)
    if entry.gang.refused:
        return (Reason(Code.KAI_NOT_PLACED, "T7", where=entry.gang.refused),)
    least = least_counts(entry.gang.pod_sets)
    if look_at(ledger, entry) is None:
        blocking = [_blocking(ledger, entry, choice) for choice in flavor_choices(ledger, entry, least)]
        if None not in blocking:
            if choices_left_out(ledger, entry):
                blocking.append(Reason(Code.PLACEMENT_NOT_PROVEN, "T1", need=sum(least)))
            fewer = least != entry.bucket.counts
            return tuple(dict.fromkeys(replace(reason, at_least=fewer) for reason in blocking if reason is not None))
        leaving = tuple(sorted(name for name, stopping in ledger.stopping.items() if not stopping.charged))
        return (Reason(Code.WAITS_FOR_TARGETS, "R4", holders=leaving),)
    return (Reason(Code.NOT_CONSIDERED, "P5"),)


def _strict_head(ledger: Ledger, pool: str) -> Entry | None:
    """The gang that no other of the pool may pass; None if the pool has no gang waiting, or its queue is not STRICT_FIFO."""
    if ledger.pools[pool].queueing is not Queueing.STRICT_FIFO:
        return None
    nominated = [entry for entry in ledger.nominated.values() if entry.gang.pool == pool]
    return min(nominated, key=lambda entry: entry.order, default=head_of(ledger, pool))


def _blocking(ledger: Ledger, entry: Entry, choice: Placement) -> Reason | None:
    """The first law that blocks *choice*: quota, then nodes; None if nothing blocks it."""
    leaf = ledger.leaf(entry)
    for index, amount in ledger.request_of(entry, choice):
        reason = _quota_reason(ledger, leaf, index, amount)
        if reason is not None:
            return reason
    if place_on_nodes(ledger, entry, choice) is not None:
        return None
    return no_place(ledger, entry, choice)


def no_place(ledger: Ledger, entry: Entry, choice: Placement, layer: int = CHARGED) -> Reason:
    """Why the nodes have no place for *choice*, counting what is free in *layer*."""
    requests = pod_requests(entry, choice)
    need = sum(request.pods for request in requests)
    constraints = ledger.constraints(entry, tuple(assignment.count for assignment in choice))
    if constraints is None:
        return Reason(Code.KEYS_CHANGED, "T3", where=f"pool {entry.gang.pool}")
    if not place(ledger.nodes, requests, (layer,), constraints).proven:
        return Reason(Code.PLACEMENT_NOT_PROVEN, "T1", resource=choice[0].flavor, need=need)
    short = shortage(ledger.nodes, requests, (layer,), constraints)
    if short is not None:
        key = ledger.pools[entry.gang.pool].topology_keys[short.level].key
        if short.best is None:
            return Reason(Code.NOT_ALL_GROUPS_FIT, "T1", where=key, need=need)
        have = short.best[0].have if short.best else 0
        return Reason(Code.NO_DOMAIN_FITS, "T1", where=key, have=have, need=short.pods, domains=short.best)
    have = min(need - 1, sum(pods_that_fit(ledger.nodes, request, (layer,)) for request in requests))
    return Reason(Code.NO_ROOM_ON_NODES, "T1", resource=choice[0].flavor, have=have, need=need)


def _quota_reason(ledger: Ledger, leaf: QuotaLeaf, index: int, amount: int) -> Reason | None:
    """The first quota or limit above *leaf* that *amount* exceeds; None if it fits in all."""
    key = str(ledger.tree.keys[index])
    if leaf.kind is Kind.FIRM:
        for pool, left in [
            (leaf, left_of_promise(leaf, index)),
            *((pool, left_for_firm(pool, index)) for pool in leaf.pools_above),
        ]:
            if amount > left:
                shared = shared_by(leaf, index) if pool is leaf else ()
                holders = _firm_holders(ledger, pool, index)
                own = leaf.nominal[index] if shared else 0
                return Reason(Code.QUOTA_FULL, "P2", pool.name, key, left, amount, holders, own=own, shared=shared)
    node = binding(leaf, index, amount)
    if node is None:
        return None
    have = left_at(leaf, node, index)
    if node.room[index] is not None:
        return Reason(Code.BORROWING_LIMIT, "Q3", _name(node), key, have, amount)
    return Reason(Code.NO_IDLE_TO_BORROW, "Q3", _name(node), key, have, amount)


def _firm_holders(ledger: Ledger, pool: QuotaNode, index: int) -> tuple[str, ...]:
    """Ids of the firm gangs that count against *pool*, a firm leaf or a pool with subpools; largest first, then by id.

    O(gangs that do not wait).  A gang of another pool counts too if it draws on quota that a cohort shares with this one.
    """
    counts: dict[str, bool] = {}  # by pool
    held = []
    for entry in ledger.placed.values():
        if not (entry.charged and entry.bucket.firm):
            continue
        of = entry.gang.pool
        if of not in counts:
            leaf = ledger.leaf(entry)
            counts[of] = leaf is pool or pool in leaf.pools_above or _draws_beside(leaf, pool, index)
        if counts[of] and (amount := dict(entry.request).get(index, 0)):
            held.append((-amount, entry.gang.id))
    return tuple(gang for _, gang in nsmallest(MOST_HOLDERS, held))


def _draws_beside(leaf: QuotaLeaf, other: QuotaNode, index: int) -> bool:
    """Firm work of *leaf* draws on quota of a cohort that shares it with *other* too."""
    if leaf.twin is None or other.guarantee is None or not leaf.drawn(index, CHARGED):
        return False
    return any(
        node.kind is Kind.COHORT and node.local[index] and node in other.guarantee.path for node in leaf.twin.path
    )


def _name(node: QuotaNode) -> str:
    if node.kind is Kind.ROOT:
        return "the cluster"
    return f"{'cohort' if node.kind is Kind.COHORT else 'pool'} {node.name}"
