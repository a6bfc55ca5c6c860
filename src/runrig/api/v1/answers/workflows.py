"""Workflows as answers."""

from typing import Any

from runrig.api.failures import details_of, status_of
from runrig.api.problems import problem
from runrig.api.shown import workflows as shared
from runrig.domain.errors import RunrigError
from runrig.domain.workflows import Group, Task, Workflow, task_uuid
from runrig.engine.explain.headlines import Headline
from runrig.engine.state.timing import times_of
from runrig.service.commands.batches import Outcome
from runrig.service.commands.submissions import Accepted
from runrig.service.queries.workflow_queries import Listed, WorkflowView
from runrig.wire import v1


def outcome(found: Outcome) -> v1.WorkflowOutcome:
    if isinstance(found, Accepted):
        return v1.WorkflowOutcome(id=found.id, warnings=list(found.warnings))
    return v1.WorkflowOutcome(problem=_problem(found))


def _problem(error: RunrigError) -> v1.ProblemDetails:
    return v1.ProblemDetails.model_validate(problem(status_of(error), error.message, error.code, details_of(error)))


def entry(listed: Listed, now: float) -> v1.WorkflowEntry:
    why = None if listed.headline is None else _headline(listed.headline)
    node, nodes = listed.nodes or (None, 0)
    return v1.WorkflowEntry(
        **_head(listed.workflow, now),
        gpus=listed.gpus,
        gpus_asked=listed.asked,
        why=why,
        node=node,
        nodes=nodes,
    )


def _headline(found: Headline) -> v1.WorkflowHeadline:
    reason = found.reason
    return v1.WorkflowHeadline(
        verdict=None if found.verdict is None else found.verdict.value,
        headline=found.words,
        sentence=found.sentence,
        code="" if reason is None else reason.code.value,
        law="" if reason is None else reason.law,
    )


def _head(it: Workflow, now: float) -> dict[str, Any]:
    return {
        "id": it.id,
        "uuid": it.uuid,
        "pool": it.pool,
        "priority": it.priority.value,
        "status": it.status.value,
        "submitted_by": it.submitted_by,
        "labels": dict(it.labels),
        "submit_time": v1.at(it.submit_time),
        "start_time": v1.at(it.start_time),
        "end_time": v1.at(it.end_time),
        "times": _times(it, now),
        "queued_s": shared.queued_s(it, now),
        "duration_s": shared.duration_s(it, now),
        "held_by": it.held_by,
        "held_since": v1.at(it.held_since),
    }


def _times(it: Workflow, now: float) -> v1.WorkflowTimes:
    kept = times_of(it)
    times = kept.until(now)
    return v1.WorkflowTimes(
        running_s=times.running,
        starting_s=times.starting,
        waited_s=times.waited,
        held_s=times.held,
        blocked_s=times.blocked,
        lost_s=times.lost_s,
        total_s=times.total_s,
        waits=times.waits,
        now=times.now and times.now.value,
        since=v1.at(kept.since),
    )


def workflow(view: WorkflowView, backend: str) -> v1.Workflow:
    it, spec = view.stored.workflow, view.spec
    return v1.Workflow(
        **_head(it, view.now),
        backend=backend,
        message=it.failure_message,
        cause=view.failure,
        cancelled_by=it.cancelled_by,
        repeats=it.parent,
        tags=list(view.tags),
        exec_timeout_s=None if spec is None else spec.exec_timeout_s,
        queue_timeout_s=None if spec is None else spec.queue_timeout_s,
        groups=[_group(view, group) for group in shared.in_file_order(view)],
        warnings=list(view.warnings),
    )


def _group(view: WorkflowView, group: Group) -> v1.TaskGroup:
    upstream, downstream = shared.neighbours(view, group.name)
    return v1.TaskGroup(
        name=group.name,
        status=group.status.value,
        message=group.failure_message,
        queued_time=v1.at(group.queued_time),
        start_time=v1.at(group.start_time),
        end_time=v1.at(group.end_time),
        attempt=group.attempt,
        preemptions=group.preemptions,
        upstream=list(upstream),
        downstream=downstream,
        pods=shared.pods(view, group),
        tasks=[_task(view.stored.workflow, task) for task in shared.tasks_of(view, group)],
    )


def _task(it: Workflow, task: Task) -> v1.TaskAttempt:
    return v1.TaskAttempt(
        name=task.name,
        attempt=task.retry_id,
        uuid=task_uuid(it.uuid, task.name),
        status=task.status.value,
        message=task.failure_message,
        exit_code=task.exit_code,
        start_time=v1.at(task.start_time),
        end_time=v1.at(task.end_time),
        node=task.node,
        gpus=list(task.gpus),
        lead=task.lead,
    )
