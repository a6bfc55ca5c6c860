"""The outcome of groups and workflows that have ended, from how their parts ended."""

from collections.abc import Iterable, Sequence
from itertools import islice

from runrig.domain.natural_order import ranged
from runrig.domain.quantities import few
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, GroupKey, Status, Workflow
from runrig.engine.state.state import State

FOR_OTHERS = (Status.FAILED_PREEMPTED, Status.FAILED_EVICTED)
BY_OTHERS = (*FOR_OTHERS, Status.FAILED_CANCELED, Status.FAILED_EXEC_TIMEOUT)
"""Causes of stopping that do not depend on how the group's own tasks end."""


def stop_was_late(state: State, key: GroupKey) -> bool:
    """Whether the group was stopped from outside after everything that counts had already ended."""
    stopping, tasks = state.groups[key].stopping, state.current_tasks(key)
    if stopping in FOR_OTHERS and any(task.lead and task.status is Status.COMPLETED for task in tasks):
        return True
    return stopping in BY_OTHERS and not any(task.status is stopping for task in tasks)


def group_status(state: State, key: GroupKey) -> Status:
    """Status of a group whose tasks have all ended by themselves, except those stopped too late to matter."""
    stopping = state.groups[key].stopping
    tasks = [task for task in state.current_tasks(key) if stopping not in FOR_OTHERS or task.status is not stopping]
    for status in (Status.FAILED_UPSTREAM, Status.FAILED_SERVER_ERROR):
        if any(task.status is status for task in tasks):
            return status
    counting = [task for task in tasks if task.lead] if state.group_spec(key).ignore_nonlead_status else tasks
    if any(task.status is Status.FAILED_EVICTED for task in counting):
        return Status.FAILED_EVICTED
    return Status.FAILED if any(task.status.failed for task in counting) else Status.COMPLETED


def first_failure(state: State, key: GroupKey) -> str:
    """The message of the lead if it has one, otherwise that of the first failed task."""
    tasks = sorted(state.current_tasks(key), key=lambda task: not task.lead)
    return next((task.failure_message for task in tasks if task.failure_message), state.groups[key].failure_message)


_PRECEDENCE = (
    WorkflowStatus.FAILED_CANCELED,
    WorkflowStatus.FAILED_SERVER_ERROR,
    WorkflowStatus.FAILED_EXEC_TIMEOUT,
    WorkflowStatus.FAILED_QUEUE_TIMEOUT,
)


def workflow_status(groups: Iterable[Status]) -> WorkflowStatus:
    """Status of a workflow whose groups have all finished."""
    failed = {status.value for status in groups if status.failed}
    if not failed:
        return WorkflowStatus.COMPLETED
    for status in _PRECEDENCE:
        if status.value in failed:
            return status
    distinct = failed - {Status.FAILED_UPSTREAM.value}
    return WorkflowStatus(distinct.pop()) if len(distinct) == 1 else WorkflowStatus.FAILED


_MOST_CAUSES, _MOST_NAMED = 3, 10


def array_outcome(workflow: Workflow, groups: Sequence[Group]) -> tuple[WorkflowStatus, str]:
    """Status and message of an array whose elements, *groups*, have all finished: ``2 of 10 failed: 3, 7 (exit code 1)``."""
    failed = [each for each in groups if each.status.failed and each.status is not Status.FAILED_CANCELED]
    cancelled = [each for each in groups if each.status is Status.FAILED_CANCELED]
    if not failed and not cancelled:
        return WorkflowStatus.COMPLETED, ""
    said = [f"{len(failed)} of {len(groups)} failed: {_causes(failed)}"] if failed else []
    said += [f"{len(cancelled)} of {len(groups)} cancelled: {_causes(cancelled)}"] if cancelled else []
    statuses = {each.status.alone for each in failed}
    if workflow.cancelled_by is not None or not failed:
        status: WorkflowStatus | None = WorkflowStatus.FAILED_CANCELED
    else:
        status = statuses.pop() if len(statuses) == 1 else None
    return status or WorkflowStatus.FAILED, "; ".join(said)


def _causes(groups: Iterable[Group]) -> str:
    """``3, 7 (exit code 1); 8 (exit code 2)``."""
    by_message: dict[str, list[int]] = {}
    for group in groups:
        by_message.setdefault(group.failure_message, []).append(int(group.name))
    named = [
        f"{few(ranged(which), _MOST_NAMED)} ({message})" for message, which in islice(by_message.items(), _MOST_CAUSES)
    ]
    rest = sum(map(len, islice(by_message.values(), _MOST_CAUSES, None)))
    return ", ".join((*named, f"{rest} for other reasons") if rest else named)
