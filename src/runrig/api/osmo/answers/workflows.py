"""Workflows, their events and the reasons why they wait, as answers."""

from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import quote

from runrig import wire
from runrig.domain.observed import ClusterEvent
from runrig.domain.records import Event
from runrig.domain.shown.workflows import (
    TaskAttempt,
    TaskGroup,
    Workflow,
    WorkflowEntry,
    WorkflowHead,
    WorkflowSubmitted,
)
from runrig.domain.value import at
from runrig.domain.workflow_status import without_number
from runrig.domain.workflows import Status
from runrig.service.queries.events import each_in_words


def link(base: str, id: str, rest: str = "") -> str:
    return f"{base}/api/workflow/{quote(id)}{rest}"


def page(base: str, id: str) -> str:
    """The address of the page on which people look at the workflow *id*."""
    return f"{base}/workflow/{quote(id)}"


def checked(found: WorkflowSubmitted) -> wire.SubmitAnswer:
    """The answer to a validation."""
    return wire.SubmitAnswer(
        name=found.id, logs=f"{without_number(found.id)} would be accepted", warnings=list(found.warnings)
    )


def entry(found: WorkflowEntry, base: str) -> wire.ListEntry:
    return wire.ListEntry(
        user=found.submitted_by,
        name=found.id,
        workflow_uuid=found.uuid,
        **_times(found),
        queued_time=found.queued_s,
        duration=found.duration_s,
        status=found.status,
        overview=page(base, found.id),
        logs=link(base, found.id, "/logs"),
        error_logs=link(base, found.id, "/error_logs"),
        pool=found.pool,
        priority=found.priority,
        labels=found.labels,
        gpus=found.gpus,
        gpus_asked=found.gpus_asked,
    )


def _times(found: WorkflowHead | TaskGroup | TaskAttempt) -> dict[str, Any]:
    """As the reference client reads times: UTC without a zone."""
    times = {name: getattr(found, name, None) for name in ("submit_time", "start_time", "end_time")}
    return {name: time.replace(tzinfo=None) for name, time in times.items() if time is not None}


def workflow(found: Workflow, base: str, *, all_attempts: bool) -> wire.WorkflowAnswer:
    """*all_attempts*: each attempt of a task is in it, not only the latest."""
    id = found.id
    done = {each.name for each in found.groups if each.status is Status.COMPLETED}
    return wire.WorkflowAnswer(
        name=id,
        uuid=found.uuid,
        submitted_by=found.submitted_by,
        cancelled_by=found.cancelled_by,
        spec=link(base, id, "/spec"),
        template_spec=link(base, id, "/spec?use_template=True"),
        logs=link(base, id, "/logs"),
        events=link(base, id, "/events"),
        overview=page(base, id),
        parent_name=found.repeats,
        **_times(found),
        exec_timeout=found.exec_timeout_s,
        queue_timeout=found.queue_timeout_s,
        duration=found.duration_s,
        queued_time=found.queued_s,
        tags=list(found.tags),
        status=found.status,
        groups=[_group(group, done, id, base, all_attempts=all_attempts) for group in found.groups],
        pool=found.pool,
        backend=found.backend,
        priority=found.priority,
        labels=found.labels,
        failure_message=found.message or None,
        warnings=list(found.warnings),
    )


def _group(group: TaskGroup, done: Collection[str], id: str, base: str, *, all_attempts: bool) -> wire.GroupAnswer:
    """*done*: the groups of the workflow *id* that are COMPLETED."""
    tasks = group.tasks if all_attempts else {task.name: task for task in group.tasks}.values()
    return wire.GroupAnswer(
        name=group.name,
        status=group.status,
        **_times(group),
        scheduling_start_time=None if group.queued_time is None else group.queued_time.replace(tzinfo=None),
        remaining_upstream_groups=[name for name in group.upstream if name not in done],
        downstream_groups=list(group.downstream),
        failure_message=group.message or None,
        tasks=[_task(task, id, base) for task in tasks],
        attempt=group.attempt,
        preemptions=group.preemptions,
        pods=list(group.pods),
    )


def _task(task: TaskAttempt, id: str, base: str) -> wire.TaskAnswer:
    which = f"?task_name={quote(task.name)}&retry_id={task.attempt}"
    return wire.TaskAnswer(
        name=task.name,
        retry_id=task.attempt,
        status=task.status,
        failure_message=task.message or None,
        exit_code=task.exit_code,
        logs=link(base, id, f"/logs{which}"),
        error_logs=link(base, id, f"/error_logs{which}"),
        events=link(base, id, "/events"),
        **_times(task),
        pod_name=f"{id}-{task.name}-{task.attempt}",
        task_uuid=task.uuid,
        node_name=task.node,
        lead=task.lead,
        gpus=list(task.gpus),
    )


def event_lines(found: Iterable[Event | ClusterEvent]) -> str:
    """``2026-01-31 12:00:00.250000  text`` per event."""
    return "".join(f"{at(each.time):%Y-%m-%d %H:%M:%S.%f}  {text}\n" for each, text in each_in_words(found))
