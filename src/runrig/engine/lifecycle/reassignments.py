"""Workflows that change their pool or priority before they start (rule P3)."""

from dataclasses import replace

from runrig.domain.errors import Conflict
from runrig.domain.gangs import Priority
from runrig.domain.plan import Plan, Queue, Reassign, Unqueue
from runrig.domain.workflows import Status
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.lifecycle.living import living
from runrig.engine.lifecycle.submission_gate import check_again
from runrig.engine.state.state import State


def reassign(state: State, workflow_id: str, *, pool: str | None = None, priority: Priority | None = None) -> Plan:
    """Queues the waiting groups again, in *pool* and with *priority*; None: unchanged. The submit time stays.

    Raises NotFound, Refused if the gate would reject it there, and Conflict if it has ended, uses nodes, or has that pool and
    priority already.
    """
    before = living(state, workflow_id)
    after = replace(before, pool=pool or before.pool, priority=priority or before.priority)
    if after == before:
        raise Conflict(f"{workflow_id} is already in pool {before.pool} with priority {before.priority.value}")
    groups = state.groups_of(workflow_id)
    on_nodes = [group.name for group in groups if group.status in (Status.INITIALIZING, Status.RUNNING)]
    if on_nodes:
        raise Conflict(
            f"{workflow_id} has started: {on_nodes[0]} uses nodes in pool {before.pool}. Cancel it and submit its file again"
        )
    check_again(state, after)
    queued = [group for group in groups if group.status is Status.SCHEDULING]
    again = [gang_of(after, state.group_spec((workflow_id, group.name)), group.attempt) for group in queued]
    moved = Reassign(workflow_id, after.pool, after.priority)
    return Plan((*(Unqueue(gang.id) for gang in again), moved, *map(Queue, again)))
