"""The event log as sentences: one line per entry, with the rule behind its action."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from runrig.domain import plan
from runrig.domain.budgets import Owner, hours_in_words, month_in_words, next_month
from runrig.domain.gangs import Gang, Law, Placement
from runrig.domain.laws import cited
from runrig.domain.natural_order import ranged
from runrig.domain.nodes import NO_FLAVOR
from runrig.domain.observed import ClusterEvent
from runrig.domain.pools import PoolState, Quotas
from runrig.domain.quantities import (
    GPU,
    FlavorResource,
    amount_in_a_sentence,
    amount_in_words,
    amount_of_flavor,
    listed,
)
from runrig.domain.records import Event
from runrig.domain.shown.events import RuledOut, WorkflowEvent
from runrig.domain.value import at, utc
from runrig.domain.workflows import Status, kind_of_group

_WHY_PREEMPTED = {
    Law.PRIORITY: f"which has higher priority in the same pool {cited('R1')}",
    Law.RECLAIM: f"whose pool reclaimed borrowed quota {cited('R2')}",
}
_WHY_SPARED = {"R2": "its pool is within its quota", "R3": "stopping it would not have helped"}


def preempted_in_words(action: plan.Preempt) -> str:
    """Returns ``was preempted by G, …``, which follows the name of the gang."""
    spared = ", ".join(f"{gang} ({_WHY_SPARED[law]})" for gang, law in action.spared)
    cheaper = f"; lower-cost candidates ruled out: {spared}" if spared else ""
    return f"was preempted by {action.by}, {_WHY_PREEMPTED[action.law]}{cheaper}"


def ruled_out_of(action: plan.Preempt) -> tuple[RuledOut, ...]:
    """Returns the lower-cost candidates that could not be used; up to 8 are recorded."""
    return tuple(RuledOut(gang, law, _WHY_SPARED[law]) for gang, law in action.spared)


def granted_in_words(gang: Gang, placement: Placement) -> str:
    """Returns ``, with 3 of 4 pods of train (minimum 2)`` for the pod sets of *gang* that accept fewer pods; "" if
    there are none (rule A1).
    """
    granted = {each.pod_set: each.count for each in placement}
    parts = [
        f"{granted[each.name]} of {each.count} pods of {each.name} (minimum {each.min_count})"
        for each in gang.pod_sets
        if each.min_count is not None and each.min_count < each.count
    ]
    return f", with {listed(parts)}" if parts else ""


def _put_node(action: plan.PutNode) -> str:
    node = action.node
    usable = node.ready and node.flavor != NO_FLAVOR
    how = f"is cordoned {cited('N1')}" if node.cordoned else "is ready" if usable else "does not accept new pods"
    return f"node {node.name} ({node.flavor or 'no flavor'}, {amount_in_words(GPU, node.resources.get(GPU, 0))}) {how}"


def _put_cohort(action: plan.PutCohort) -> str:
    verb = "created" if action.before is None else "updated"
    return f"{verb} cohort {action.cohort.name}: {_quotas(action.cohort.quotas)}"


def _put_pool(action: plan.PutPool) -> str:
    pool, before = action.pool, action.before
    if before is None:
        return f"created pool {pool.name}: {_quotas(pool.quotas)}"
    if pool.state is not before.state:
        return f"pool {pool.name} changed from {before.state.value} to {pool.state.value}"
    if pool.state is PoolState.ACTIVE and pool.quotas != before.quotas:
        return f"resized pool {pool.name}: {_quotas(before.quotas)} → {_quotas(pool.quotas)}"
    if pool.closed_by != before.closed_by:
        why = f": {pool.closed_reason}" if pool.closed_reason else ""
        return (
            f"reopened pool {pool.name}"
            if pool.closed_by is None
            else f"pool {pool.name} closed by {pool.closed_by}{why}"
        )
    if (pool.paused_by, pool.paused_until) != (before.paused_by, before.paused_until):
        why = f": {pool.paused_reason}" if pool.paused_reason else ""
        until = "" if pool.paused_until is None else f" until {utc(at(pool.paused_until))}"
        return (
            f"resumed pool {pool.name}"
            if pool.paused_by is None
            else f"pool {pool.name} paused by {pool.paused_by}{until}{why}"
        )
    return f"updated pool {pool.name}: {_quotas(pool.quotas)}"


def _set_spent(action: plan.SetSpent) -> str:
    spent, whose = action.spent, f"budget of {'pool ' * (action.spent.of == Owner.POOL)}{action.spent.name}"
    if action.budget is None:
        return f"the {whose} is no longer counted {cited('W7')}"
    held = f"{hours_in_words(spent.held)} of {action.budget:,} used in {month_in_words(spent.month)}"
    does = "" if spent.stops is None else f", so it is reached until {utc(at(next_month(spent.month)))}"
    return f"{whose}: {held}{does} {cited('W7')}"


def _set_owner_aside(action: plan.SetOwnerAside) -> str:
    whose = f"{'pool ' * (action.of == Owner.POOL)}{action.name}"
    return (
        f"the pause or budget of {whose} was set aside after an internal error ({action.error}) and stays as it is; everything else "
        f"continues {cited('W8')}"
    )


def _move_task(action: plan.MoveTask) -> str:
    told = action.exit_code is None or action.message.startswith(f"exit code {action.exit_code}")
    code = "" if told else f" with exit code {action.exit_code}"
    return f"task {action.key.task} (attempt {action.key.retry_id}) is {action.status.value}{code}{_because(action.message)}"


def _move_group(action: plan.MoveGroup) -> str:
    status = action.status.value if action.stopping is None else f"stopping ({action.stopping.value})"
    return f"{kind_of_group(action.group)} {action.group} is {status}{_because(action.message)}"


def _move_workflow(action: plan.MoveWorkflow) -> str:
    if action.cancelled_by is not None and not action.status.finished:
        return f"{action.workflow} is stopping{_because(action.message)}"
    return f"{action.workflow} is {action.status.value}{_because(action.message)}"


def _queue(action: plan.Queue) -> str:
    gang = action.gang
    again = "" if gang.attempt == 0 else f" again (attempt {gang.attempt})"
    return f"{gang.id} queued in pool {gang.pool}{again}"


def _nominate(action: plan.Nominate) -> str:
    waits = f"; waiting for {listed(action.targets)} to stop" if action.targets else ""
    return f"{action.gang} reserved {_places(action.placement)}{waits} {cited('R4')}"


def _stop(action: plan.Stop) -> str:
    if action.cause is Status.FAILED_EVICTED:
        return f"{action.gang} is stopping because one of its nodes is being drained {cited('N2')}"
    return f"{action.gang} is stopping ({action.cause.value})"


_REFUSED = {
    Status.FAILED_BACKEND_ERROR: "not placed by the cluster's scheduler",
    Status.FAILED_PREEMPTED: "evicted by the cluster's scheduler",
    Status.FAILED_EVICTED: "evicted by the cluster",
}


def _refuse(action: plan.Refuse) -> str:
    what = _REFUSED[action.cause]
    return f"{action.gang} was {what} and requeued (KaiNotPlaced): {action.said} {cited('T7')}"


def _set_priority(action: plan.SetPriority) -> str:
    what = "can be preempted now" if action.priority.preemptible else "cannot be preempted"
    return f"{action.gang} keeps its nodes with priority {action.priority.value}, and {what} {cited('P2')}"


def _because(message: str) -> str:
    return f": {message}" if message else ""


_WORDS: Mapping[type[plan.Action], Callable[[Any], str]] = {
    plan.SetFlavors: lambda it: f"set flavors: {', '.join(flavor.name for flavor in it.flavors)}",
    plan.PutNode: _put_node,
    plan.DropNode: lambda it: f"node {it.name} left the cluster",
    plan.PutCohort: _put_cohort,
    plan.DropCohort: lambda it: f"deleted cohort {it.before.name}",
    plan.PutPool: _put_pool,
    plan.PutLimits: lambda it: f"limits of {it.limits.user}: {it.before} → {it.limits} {cited('W6')}",
    plan.SetSpent: _set_spent,
    plan.SetOwnerAside: _set_owner_aside,
    plan.Submit: lambda it: (
        f"{it.workflow.id} submitted to pool {it.workflow.pool} by {it.workflow.submitted_by} (priority {it.workflow.priority.value})"
    ),
    plan.MoveTask: _move_task,
    plan.RetryTask: lambda it: f"task {it.key.task} is retried (attempt {it.key.retry_id + 1})",
    plan.RestartTask: lambda it: f"task {it.key.task} is stopping, to restart with the other tasks of its group",
    plan.MoveGroup: _move_group,
    plan.MoveWorkflow: _move_workflow,
    plan.Queue: _queue,
    plan.Unqueue: lambda it: f"{it.gang} left the queue",
    plan.Hold: lambda it: f"{it.workflow} put on hold by {it.by} {cited('W3')}",
    plan.EndHold: lambda it: f"{it.workflow} released",
    plan.SetAside: lambda it: (
        f"{it.workflow} set aside after an internal error ({it.error}); all other workflows continue {cited('W8')}"
    ),
    plan.Abandon: lambda it: f"{it.workflow} is FAILED_CANCELED{_because(it.message)}",
    plan.Reassign: lambda it: f"{it.workflow} moved to pool {it.pool}, priority {it.priority.value}",
    plan.SetMost: lambda it: f"{it.workflow} may run {it.most} of its elements at a time {cited('W4')}",
    plan.Nominate: _nominate,
    plan.Withdraw: lambda it: f"{it.gang} lost its reservation and is pending again",
    plan.TryAgain: lambda it: (
        f"{it.gang} is retried after an earlier rejection by the cluster's scheduler {cited('T7')}"
    ),
    plan.Preempt: lambda it: f"{it.gang} {preempted_in_words(it)}",
    plan.Stop: _stop,
    plan.Admit: lambda it: f"{it.gang} admitted on {_places(it.placement)}",
    plan.Replace: lambda it: f"{it.gang} lost nodes and moved to {_places(it.placement)} {cited('T1')}",
    plan.Refuse: _refuse,
    plan.SetPriority: _set_priority,
    plan.Release: lambda it: f"{it.gang} released its resources",
}


def in_words(action: plan.Action) -> str:
    """Returns *action* as a sentence without a full stop."""
    return _WORDS[type(action)](action)


def unnumbered(action: plan.Action) -> plan.Action:
    """Returns *action* without GPU indices, which mean nothing if the cluster itself assigns devices."""
    if not isinstance(action, plan.Nominate | plan.Admit | plan.Replace):
        return action
    placement = tuple(
        replace(assignment, shares=tuple(replace(share, gpus=()) for share in assignment.shares))
        for assignment in action.placement
    )
    return replace(action, placement=placement)


def _places(placement: Placement) -> str:
    """Returns the nodes of *placement* in order, each once."""
    gpus: dict[str, list[int]] = {}
    for assignment in placement:
        for share in assignment.shares:
            gpus.setdefault(share.node, []).extend(share.gpus)
    parts = [node + (f" (GPU {', '.join(ranged(sorted(held)))})" if held else "") for node, held in gpus.items()]
    return ", ".join(parts) or "quota of its pool"


def _plain(key: FlavorResource, amount: int) -> str:
    return amount_in_a_sentence(key.resource, amount)


def _quotas(quotas: Quotas) -> str:
    named = len({key.flavor for key in quotas}) > 1
    parts = [
        amount_of_flavor(str(key), quota.nominal, named=named)
        + ("" if quota.borrowing_limit is None else f", borrowing limit {_plain(key, quota.borrowing_limit)}")
        + ("" if quota.lending_limit is None else f", lending limit {_plain(key, quota.lending_limit)}")
        for key, quota in sorted(quotas.items())
    ]
    return "; ".join(parts) or "no quota"


def each_in_words(found: Iterable[Event | ClusterEvent]) -> Iterator[tuple[Event | ClusterEvent, str]]:
    """Yields each event of *found*, all of one workflow, with its sentence. Compares an admission with what the gang
    requested when it was queued.

    The gang of a workflow with one group has the workflow's name.
    """
    gangs: dict[str, Gang] = {}
    alone, id = "", ""
    for event in found:
        if isinstance(event, ClusterEvent):
            yield event, _noted(event)
            continue
        action, granted = event.action, ""
        if isinstance(action, plan.Submit) and len(action.groups) == 1:
            alone, id = f"{action.workflow.id}/{action.groups[0].name}", action.workflow.id
        elif isinstance(action, plan.Queue):
            gangs[action.gang.id] = action.gang
        elif isinstance(action, plan.Admit) and action.gang in gangs:
            granted = granted_in_words(gangs[action.gang], action.placement)
        words = in_words(action) + granted
        yield event, words.replace(alone, id, 1) if alone and words.startswith(alone) else words


def _noted(event: ClusterEvent) -> str:
    """Yields lines from a program of the cluster, which begin with its name: ``kubelet: task main (attempt 0): Pulled:
    …  (x3)``.
    """
    key = event.key
    about = (
        f"task {key.task} (attempt {key.retry_id})"
        if key
        else f"{kind_of_group(event.group)} {event.group}"
        if event.group
        else ""
    )
    reason = "" if event.text.startswith(event.reason) else event.reason
    words = ": ".join(part for part in (event.source, about, reason, event.text) if part)
    return words if event.count == 1 else f"{words} (x{event.count})"


def workflow_events(found: Iterable[Event | ClusterEvent]) -> list[WorkflowEvent]:
    """Returns the events of one workflow. Log entries keep their order even if the clock was set back."""
    return sorted(_placed(found), key=lambda each: each.place)


def _placed(found: Iterable[Event | ClusterEvent]) -> Iterator[WorkflowEvent]:
    latest = 0.0
    for each, text in each_in_words(found):
        if isinstance(each, ClusterEvent):
            place = (each.latest, 1, each.version, 0)
            yield WorkflowEvent(None, None, at(each.time), each.source, each.reason, "", text, place)
        else:
            latest = max(latest, each.time)
            kind, place = type(each.action).__name__, (latest, 0, each.revision, each.seq)
            yield WorkflowEvent(each.revision, each.seq, at(each.time), each.actor, kind, each.law, text, place)
