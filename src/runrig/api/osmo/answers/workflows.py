"""Workflows, their events and the reasons why they wait, as answers."""

from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote

from runrig import wire
from runrig.api.shown import workflows as shared
from runrig.domain.observed import ClusterEvent
from runrig.domain.records import Event
from runrig.domain.workflow_status import without_number
from runrig.domain.workflows import Group, Status, Task, Workflow, task_uuid
from runrig.service.commands.submissions import Accepted
from runrig.service.queries.workflow_queries import Listed, WorkflowView
from runrig.wire import utc


def _at(seconds: float) -> datetime:
    moment = utc(seconds)
    assert moment is not None, "a time that is set"
    return moment


def link(base: str, id: str, rest: str = "") -> str:
    return f"{base}/api/workflow/{quote(id)}{rest}"


def page(base: str, id: str) -> str:
    """The address of the page on which people look at the workflow *id*."""
    return f"{base}/workflow/{quote(id)}"


def checked(found: Accepted) -> wire.SubmitAnswer:
    """The answer to a validation."""
    return wire.SubmitAnswer(
        name=found.id, logs=f"{without_number(found.id)} would be accepted", warnings=list(found.warnings)
    )


def entry(listed: Listed, base: str, now: float) -> wire.ListEntry:
    workflow = listed.workflow
    return wire.ListEntry(
        user=workflow.submitted_by,
        name=workflow.id,
        workflow_uuid=workflow.uuid,
        submit_time=_at(workflow.submit_time),
        start_time=utc(workflow.start_time),
        end_time=utc(workflow.end_time),
        queued_time=shared.queued_s(workflow, now),
        duration=shared.duration_s(workflow, now),
        status=workflow.status.value,
        overview=page(base, workflow.id),
        logs=link(base, workflow.id, "/logs"),
        error_logs=link(base, workflow.id, "/error_logs"),
        pool=workflow.pool,
        priority=workflow.priority.value,
        labels=dict(workflow.labels),
        gpus=listed.gpus,
        gpus_asked=listed.asked,
    )


def workflow(view: WorkflowView, base: str, backend: str, *, all_attempts: bool) -> wire.WorkflowAnswer:
    """*all_attempts*: each attempt of a task is in it, not only the latest."""
    it, spec = view.stored.workflow, view.spec
    return wire.WorkflowAnswer(
        name=it.id,
        uuid=it.uuid,
        submitted_by=it.submitted_by,
        cancelled_by=it.cancelled_by,
        spec=link(base, it.id, "/spec"),
        template_spec=link(base, it.id, "/spec?use_template=True"),
        logs=link(base, it.id, "/logs"),
        events=link(base, it.id, "/events"),
        overview=page(base, it.id),
        parent_name=it.parent,
        submit_time=_at(it.submit_time),
        start_time=utc(it.start_time),
        end_time=utc(it.end_time),
        exec_timeout=None if spec is None else spec.exec_timeout_s,
        queue_timeout=None if spec is None else spec.queue_timeout_s,
        duration=shared.duration_s(it, view.now),
        queued_time=shared.queued_s(it, view.now),
        tags=list(view.tags),
        status=it.status.value,
        groups=[_group(view, group, base, all_attempts=all_attempts) for group in shared.in_file_order(view)],
        pool=it.pool,
        backend=backend,
        priority=it.priority.value,
        labels=dict(it.labels),
        failure_message=it.failure_message or None,
        warnings=list(view.warnings),
    )


def _group(view: WorkflowView, group: Group, base: str, *, all_attempts: bool) -> wire.GroupAnswer:
    attempts = shared.tasks_of(view, group)
    tasks = attempts if all_attempts else {task.name: task for task in attempts}.values()
    upstream, downstream = shared.neighbours(view, group.name)
    done = {each.name for each in view.stored.groups if each.status is Status.COMPLETED}
    return wire.GroupAnswer(
        name=group.name,
        status=group.status.value,
        start_time=utc(group.start_time),
        end_time=utc(group.end_time),
        scheduling_start_time=utc(group.queued_time),
        remaining_upstream_groups=[name for name in upstream if name not in done],
        downstream_groups=downstream,
        failure_message=group.failure_message or None,
        tasks=[_task(view.stored.workflow, task, base) for task in tasks],
        attempt=group.attempt,
        preemptions=group.preemptions,
        pods=shared.pods(view, group),
    )


def _task(it: Workflow, task: Task, base: str) -> wire.TaskAnswer:
    which = f"?task_name={quote(task.name)}&retry_id={task.retry_id}"
    return wire.TaskAnswer(
        name=task.name,
        retry_id=task.retry_id,
        status=task.status.value,
        failure_message=task.failure_message or None,
        exit_code=task.exit_code,
        logs=link(base, it.id, f"/logs{which}"),
        error_logs=link(base, it.id, f"/error_logs{which}"),
        events=link(base, it.id, "/events"),
        start_time=utc(task.start_time),
        end_time=utc(task.end_time),
        pod_name=f"{it.id}-{task.name}-{task.retry_id}",
        task_uuid=task_uuid(it.uuid, task.name),
        node_name=task.node,
        lead=task.lead,
        gpus=list(task.gpus),
    )


# ---------------------------------------------------------------- events and why


def event_lines(found: Iterable[Event | ClusterEvent]) -> str:
    """``2026-01-31 12:00:00.250000  text`` per event."""
    return "".join(
        f"{_at(each.time).isoformat(' ', 'microseconds')}  {text}\n" for each, text in shared.each_in_words(found)
    )
