"""Workflows that change their pool before they start, or their priority at any time (rules P2, P3)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runrig.domain.errors import Conflict, Refused
from runrig.domain.gangs import Gang, GangState, Priority
from runrig.domain.plan import Plan, Queue, Reassign, SetPriority, Unqueue
from runrig.domain.quantities import GPU, amount_in_a_sentence, amount_in_words, amount_of_flavor, has_several_flavors
from runrig.domain.workflows import Status, Workflow
from runrig.engine.explain.report import pool_balance
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle.living import living
from runrig.engine.lifecycle.pausing import queued, starts_nothing
from runrig.engine.lifecycle.submission_gate import check_again
from runrig.engine.quota.limits import promises
from runrig.engine.quota.pool_tree import summed
from runrig.engine.quota.quota_node import within_promise
from runrig.engine.state.state import State
from runrig.engine.state.tables import ON_NODES


def reassign(state: State, workflow_id: str, *, pool: str | None = None, priority: Priority | None = None) -> Plan:
    """Queues the waiting groups again, in *pool* and with *priority*; None: unchanged. The submit time stays. Groups on nodes
    keep them, and get *priority* there.

    Raises NotFound. Refused: the gate would reject it there, or guaranteed work has no room for what is on nodes. Conflict: it has
    ended, is on nodes of another pool, is stopping, or has that pool and priority already.
    """
    before = living(state, workflow_id)
    after = reassigned(before, pool=pool, priority=priority)
    if after == before:
        raise Conflict(f"{workflow_id} is already in pool {before.pool} with priority {before.priority.value}")
    groups = state.groups_of(workflow_id)
    running = [each for each in groups if each.status in ON_NODES]
    if running and after.pool != before.pool:
        raise Conflict(
            f"{workflow_id} has started: {running[0].name} uses nodes in pool {before.pool}. Cancel it and submit its file again"
        )
    if len(running) < sum(not each.status.finished for each in groups):  # Groups on nodes have passed the gate before.
        check_again(state, after)
    entries = [state.ledger.entries[each.gang_id] for each in running]
    _check_on_nodes(state, after, entries)
    leaves = [Unqueue(group.gang_id) for group in groups if group.status is Status.SCHEDULING]
    stays = [SetPriority(each.gang.id, after.priority) for each in entries]
    again = () if starts_nothing(state, after) else map(Queue, gangs_again(state, after))
    return Plan((*leaves, Reassign(workflow_id, after.pool, after.priority), *stays, *again))


def reassigned(workflow: Workflow, *, pool: str | None, priority: Priority | None) -> Workflow:
    return replace(workflow, pool=pool or workflow.pool, priority=priority or workflow.priority)


def gangs_again(state: State, after: Workflow) -> Iterator[Gang]:
    """The gangs that are queued again as of *after*, unless it is on hold or its pool is paused."""
    groups = state.groups_of(after.id)
    outside = [replace(each, status=Status.WAITING) if each.status is Status.SCHEDULING else each for each in groups]
    return (action.gang for action in queued(state, after, outside))


def _check_on_nodes(state: State, after: Workflow, entries: Sequence[Entry]) -> None:
    """Raises Conflict if one of *entries*, which are on nodes, is stopping.

    Raises Refused if preemptible ones should become guaranteed, and the guarantee has no room for them next to all other
    guaranteed work, nominated work included (rule P2). Other changes fit: the totals of the pool, and so rule Q3, stay as they are.
    """
    for entry in entries:
        if entry.state is not GangState.ADMITTED:
            raise Conflict(f"{entry.gang.id} is stopping. Change the priority of {after.id} once it is queued again")
    moving = [entry for entry in entries if not entry.bucket.firm and not after.priority.may_borrow]
    leaf, asked = state.ledger.tree.firm[after.pool], summed([entry.request for entry in moving])
    if not moving or within_promise(leaf, asked):
        return
    left, index, amount = min(
        (left - amount, index, amount) for index, amount in asked for _, left in promises(leaf, index)
    )
    key = state.ledger.tree.keys[index]
    needs = amount_of_flavor(str(key), amount, named=has_several_flavors(state.ledger.tree.keys, key.resource))
    raise Refused(
        f"{after.id} uses {needs}, but pool {after.pool} has {amount_in_a_sentence(key.resource, max(0, left + amount))} of "
        f"its quota left, so it stays {state.workflows[after.id].priority.value}. Wait until other work of the pool has ended",
        "P2",
        {"pool": after.pool, "resource": str(key), "asked": amount, "limit": left + amount},
    )


def effect_on_nodes(state: State, plan: Plan) -> str:
    """Returns the effect of *plan*, of `reassign`, on groups on nodes, in up to two sentences; "" without any. Changes nothing."""
    ledger = state.ledger
    stays = [each for each in plan.actions if isinstance(each, SetPriority)]
    if not stays:
        return ""
    entries = [ledger.entries[each.gang] for each in stays]
    undo = [SetPriority(each.gang.id, each.gang.priority) for each in entries]
    pool, was = entries[0].gang.pool, entries[0].gang.priority.may_borrow
    becomes, id = stays[0].priority.may_borrow, entries[0].gang.workflow
    gpus = sum(each.gang.gpus([one.count for one in each.placement]) for each in entries)
    of_quota = f"{amount_in_words(GPU, gpus)} of the quota of {pool}" if gpus else ""
    if was == becomes:
        return f"{id} would keep its nodes. HIGH and NORMAL differ only in the queue (rule P4)"
    if was:
        uses = f" and use {of_quota} (rule P2)" if gpus else ""
        return f"{id} would keep its nodes{uses}. Nothing could preempt it any more (rule P1)"
    for each in stays:
        ledger.apply(each, 0)
    borrows = pool_balance(state, pool).borrowed
    for each in undo:
        ledger.apply(each, 0)
    frees = f", free {of_quota}" if gpus else ""
    if borrows:
        reclaim = f"{pool} would borrow {amount_in_words(GPU, borrows)}, which other pools could reclaim (rule R2)"
    else:
        reclaim = "Other pools could not, as nothing would be borrowed (rule R2)"
    return f"{id} would keep its nodes{frees}, and become preemptible by HIGH and NORMAL work of {pool} (rule R1). {reclaim}"
