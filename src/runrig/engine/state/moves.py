"""Computes the new record of a group, task or workflow after an action. Raises IllegalStep if the tables do not allow it."""

from runrig.domain.plan import (
    Abandon,
    Admit,
    Decision,
    EndHold,
    Hold,
    MoveGroup,
    MoveTask,
    Preempt,
    Queue,
    Reassign,
    Refuse,
    SetAside,
    SetMost,
    Stop,
    Unqueue,
    WorkflowMove,
)
from runrig.domain.replacing import replace
from runrig.domain.transitions import GROUP, TASK, check
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import THE_SERVER, Group, Status, Task, Workflow

_SCHEDULER = {Status.FAILED_PREEMPTED: "evicted by", Status.FAILED_BACKEND_ERROR: "rejected by"}


def task_moved(task: Task, action: MoveTask, at: float) -> Task:
    check(TASK, task.key, task.status, MoveTask, action.status)
    return replace(
        task,
        status=action.status,
        exit_code=task.exit_code if action.exit_code is None else action.exit_code,
        start_time=at if action.status is Status.RUNNING and task.start_time is None else task.start_time,
        end_time=at if action.status.finished else None,
        failure_message=action.message or task.failure_message,
    )


def group_moved(group: Group, action: MoveGroup, at: float) -> Group:
    check(GROUP, group.gang_id, group.status, MoveGroup, action.status)
    completed = action.status is Status.COMPLETED
    return replace(
        group,
        status=action.status,
        stopping=action.stopping,
        start_time=at if action.status is Status.RUNNING and group.start_time is None else group.start_time,
        end_time=at if action.status.finished else None,
        failure_message="" if completed else action.message or group.failure_message,
    )


def workflow_moved(workflow: Workflow, action: WorkflowMove, at: float) -> Workflow:
    match action:
        case Hold(_, by):
            return replace(workflow, held_by=by, held_since=at)
        case EndHold():
            return replace(workflow, held_by=None, held_since=None)
        case SetAside():
            return replace(workflow, held_by=THE_SERVER, held_since=at)
        case Abandon(_, by, message):
            return replace(
                workflow,
                held_by=None,
                held_since=None,
                cancelled_by=by,
                failure_message=message,
                status=WorkflowStatus.FAILED_CANCELED,
                end_time=at,
            )
        case Reassign(_, pool, priority):
            return replace(workflow, pool=pool, priority=priority)
        case SetMost(_, most):
            return replace(workflow, most=most)
    started = at if action.status is WorkflowStatus.RUNNING and workflow.start_time is None else workflow.start_time
    completed = action.status is WorkflowStatus.COMPLETED
    return replace(
        workflow,
        status=action.status,
        start_time=started,
        end_time=at if action.status.finished else None,
        failure_message="" if completed else action.message or workflow.failure_message,
        cancelled_by=action.cancelled_by or workflow.cancelled_by,
        held_by=None if action.status.finished else workflow.held_by,
        held_since=None if action.status.finished else workflow.held_since,
    )


def group_decided(group: Group, action: Decision, at: float) -> Group:
    """Returns *group* itself if the decision changes only its gang."""
    match action:
        case Queue(gang):
            moved = replace(
                group,
                status=Status.SCHEDULING,
                attempt=gang.attempt,
                stopping=None,
                queued_time=at,
                start_time=None,
                end_time=None,
            )
        case Unqueue():
            moved = replace(group, status=Status.WAITING, queued_time=None)
        case Admit():
            moved = replace(group, status=Status.INITIALIZING)
        case Preempt():
            moved = replace(group, stopping=Status.FAILED_PREEMPTED, preemptions=group.preemptions + 1)
        case Stop(_, cause):
            moved = replace(group, stopping=cause, drains=group.drains + (cause is Status.FAILED_EVICTED))
        case Refuse(_, said, cause):
            message = said if cause is Status.FAILED_EVICTED else f"{_SCHEDULER[cause]} the cluster's scheduler: {said}"
            moved = replace(group, stopping=cause, failure_message=message, refusals=group.refusals + 1)
        case _:
            return group
    check(GROUP, group.gang_id, group.status, type(action), moved.status)
    return moved
