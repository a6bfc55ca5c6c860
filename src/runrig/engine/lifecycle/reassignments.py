"""Workflows that change their pool or priority before they start (rule P3)."""

from collections.abc import Iterator
from dataclasses import replace

from runrig.domain.errors import Conflict
from runrig.domain.gangs import Gang, Priority
from runrig.domain.plan import Plan, Queue, Reassign, Unqueue
from runrig.domain.workflows import Status, Workflow
from runrig.engine.lifecycle.living import living
from runrig.engine.lifecycle.pausing import queued, starts_nothing
from runrig.engine.lifecycle.submission_gate import check_again
from runrig.engine.state.state import State


def reassign(state: State, workflow_id: str, *, pool: str | None = None, priority: Priority | None = None) -> Plan:
    """Queues the waiting groups again, in *pool* and with *priority*; None: unchanged. The submit time stays.

    Raises NotFound, Refused if the gate would reject it there, and Conflict if it has ended, uses nodes, or has that pool and
    priority already.
    """
    before = living(state, workflow_id)
    after = reassigned(before, pool=pool, priority=priority)
    if after == before:
        raise Conflict(f"{workflow_id} is already in pool {before.pool} with priority {before.priority.value}")
    groups = state.groups_of(workflow_id)
    on_nodes = [group.name for group in groups if group.status in (Status.INITIALIZING, Status.RUNNING)]
    if on_nodes:
        raise Conflict(
            f"{workflow_id} has started: {on_nodes[0]} uses nodes in pool {before.pool}. Cancel it and submit its file again"
        )
    check_again(state, after)
    leaves = [Unqueue(group.gang_id) for group in groups if group.status is Status.SCHEDULING]
    again = () if starts_nothing(state, after) else map(Queue, gangs_again(state, after))
    return Plan((*leaves, Reassign(workflow_id, after.pool, after.priority), *again))


def reassigned(workflow: Workflow, *, pool: str | None, priority: Priority | None) -> Workflow:
    return replace(workflow, pool=pool or workflow.pool, priority=priority or workflow.priority)


def gangs_again(state: State, after: Workflow) -> Iterator[Gang]:
    """The gangs that are queued again as of *after*, unless it is on hold or its pool is paused."""
    groups = state.groups_of(after.id)
    outside = [each if each.status.finished else replace(each, status=Status.WAITING) for each in groups]
    return (action.gang for action in queued(state, after, outside))
