"""Workflows, their groups and tasks in the form of responses. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runrig.domain import workflows
from runrig.domain.shown.why import WorkflowCause
from runrig.domain.shown.workflows import (
    TaskAttempt,
    TaskGroup,
    Workflow,
    WorkflowAfter,
    WorkflowArray,
    WorkflowEntry,
    WorkflowHeadline,
    WorkflowTimes,
)
from runrig.domain.value import at
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, GroupSpec, Status, Task, WorkflowSpec, task_uuid
from runrig.engine.explain.headlines import Headline
from runrig.engine.state.timing import times_of
from runrig.ports.store import StoredWorkflow
from runrig.service.queries.pod_counts import pod_counts


def entry(
    it: workflows.Workflow,
    now: float,
    gpus: int | None,
    asked: int | None,
    nodes: tuple[str, int],
    ends_by: float | None,
    statuses: Mapping[str, int] | None,
) -> WorkflowEntry:
    """*statuses*: those of the elements of an array, and how many have each; None: it is not an array.

    *nodes*: the first one, by name, that runs a task ("" if there is none), and their number."""
    first, count = nodes
    return WorkflowEntry(
        **_head(it, now, statuses),
        gpus=gpus,
        gpus_asked=asked,
        why=None,
        node=first or None,
        nodes=count,
        ends_by=at(ends_by),
        number=it.number,
    )


def headline(found: Headline) -> WorkflowHeadline:
    reason = found.reason
    return WorkflowHeadline(
        verdict=found.verdict,
        headline=found.words,
        sentence=found.sentence,
        code="" if reason is None else reason.code.value,
        law="" if reason is None else reason.law,
    )


def _head(it: workflows.Workflow, now: float, statuses: Mapping[str, int] | None) -> dict[str, Any]:
    """*queued_s*: until its first task ran, until it ended without running, or until *now*."""
    begin, end = it.start_time, it.end_time or now
    return {
        "id": it.id,
        "uuid": it.uuid,
        "pool": it.pool,
        "priority": it.priority.value,
        "status": it.status,
        "submitted_by": it.submitted_by,
        "labels": dict(it.labels),
        "submit_time": at(it.submit_time),
        "start_time": at(begin),
        "end_time": at(it.end_time),
        "times": _times(it, now),
        "queued_s": round(max(0.0, (begin or end) - it.submit_time), 6),
        "duration_s": None if begin is None else round(max(0.0, end - begin), 6),
        "held_by": it.held_by,
        "held_since": at(it.held_since),
        "array": None if statuses is None else _array(it, statuses),
    }


def _array(it: workflows.Workflow, statuses: Mapping[str, int]) -> WorkflowArray:
    def number(*which: Status) -> int:
        return sum(statuses.get(each.value, 0) for each in which)

    return WorkflowArray(
        elements=sum(statuses.values()),
        most=it.most,
        waiting=number(Status.WAITING),
        queued=number(Status.SCHEDULING),
        running=number(Status.INITIALIZING, Status.RUNNING),
        completed=number(Status.COMPLETED),
        failed=number(*(each for each in Status if each.failed and each is not Status.FAILED_CANCELED)),
        cancelled=number(Status.FAILED_CANCELED),
    )


def _times(it: workflows.Workflow, now: float) -> WorkflowTimes:
    kept = times_of(it)
    times = kept.until(now)
    return WorkflowTimes(
        running_s=times.running,
        starting_s=times.starting,
        waited_s=times.waited,
        held_s=times.held,
        blocked_s=times.blocked,
        lost_s=times.lost_s,
        total_s=times.total_s,
        waits=times.waits,
        now=times.now and times.now.value,
        since=at(kept.since),
    )


def workflow(
    stored: StoredWorkflow,
    spec: WorkflowSpec | None,
    now: float,
    *,
    backend: str,
    tags: tuple[str, ...],
    cause: WorkflowCause | None,
    warnings: tuple[str, ...],
) -> Workflow:
    """*spec* None: deleted by retention. Groups and tasks are then sorted by name, and the dependencies of groups are
    unknown.
    """
    it = stored.workflow
    groups = _groups(stored, () if spec is None else spec.groups)
    statuses = None if spec is None or spec.array is None else Counter(each.status.value for each in groups)
    return Workflow(
        **_head(it, now, statuses),
        backend=backend,
        message=it.failure_message,
        cause=cause,
        cancelled_by=it.cancelled_by,
        repeats=it.parent,
        tags=tags,
        exec_timeout_s=None if spec is None else spec.exec_timeout_s,
        queue_timeout_s=None if spec is None else spec.queue_timeout_s,
        code=None if spec is None else spec.code,
        after=tuple(WorkflowAfter(each.what, each.when.value, each.ended) for each in it.after),
        groups=groups,
        warnings=warnings,
    )


def elements(stored: StoredWorkflow) -> dict[str, TaskGroup]:
    """Returns the task groups of *stored* by name, without what only the specification tells."""
    return {each.name: each for each in _groups(stored, ())}


def _groups(stored: StoredWorkflow, specs: Sequence[GroupSpec]) -> tuple[TaskGroup, ...]:
    """In the order of *specs*, then by name."""
    order = {group.name: place for place, group in enumerate(specs)}
    by_name = {each.name: each for each in specs}
    tasks: dict[str, list[Task]] = {}
    for task in stored.tasks:
        tasks.setdefault(task.group, []).append(task)
    downstream: dict[str, list[str]] = {}
    for each in specs:
        for name in each.upstream:
            downstream.setdefault(name, []).append(each.name)
    return tuple(
        [
            _group(
                stored.workflow,
                group,
                by_name.get(group.name),
                downstream.get(group.name, ()),
                tasks.get(group.name, ()),
            )
            for group in sorted(stored.groups, key=lambda each: (order.get(each.name, len(order)), each.name))
        ]
    )


def _group(
    it: workflows.Workflow, group: Group, spec: GroupSpec | None, downstream: Sequence[str], tasks: Sequence[Task]
) -> TaskGroup:
    """*tasks*: all attempts of the group."""
    order = {} if spec is None else {task.name: place for place, task in enumerate(spec.tasks)}
    attempts = sorted(
        tasks,
        key=lambda task: (order.get(task.spec, len(order)), task.spec, task.index, task.retry_id),
    )
    return TaskGroup(
        name=group.name,
        status=group.status,
        message=group.failure_message,
        queued_time=at(group.queued_time),
        start_time=at(group.start_time),
        end_time=at(group.end_time),
        attempt=group.attempt,
        preemptions=group.preemptions,
        upstream=() if spec is None else spec.upstream,
        downstream=tuple(downstream),
        pods=() if spec is None else pod_counts(spec, group, tasks),
        tasks=tuple([_task(it, task) for task in attempts]),
    )


def as_it_runs(stored: StoredWorkflow) -> StoredWorkflow:
    """Replaces in *stored* the messages of running work: they describe an earlier attempt, and are shown with that
    attempt. The message of the workflow is why it is stopping, unless a part of it keeps running.
    """
    workflow = stored.workflow
    if workflow.status is WorkflowStatus.RUNNING:
        workflow = replace(workflow, failure_message=_stopping(stored.groups))
    groups = tuple(
        replace(each, failure_message="") if each.status is Status.RUNNING and each.stopping is None else each
        for each in stored.groups
    )
    return replace(stored, workflow=workflow, groups=groups)


def _stopping(groups: Sequence[Group]) -> str:
    """Returns ``stopping: ran longer than …``; "" if some of *groups* on nodes continue."""
    on_nodes = [each for each in groups if each.status in (Status.INITIALIZING, Status.RUNNING)]
    if not on_nodes or any(each.stopping is None for each in on_nodes):
        return ""
    preempted = on_nodes[0].stopping is Status.FAILED_PREEMPTED
    return f"stopping: {'preempted' if preempted else on_nodes[0].failure_message}"


def _task(it: workflows.Workflow, task: Task) -> TaskAttempt:
    return TaskAttempt(
        name=task.name,
        attempt=task.retry_id,
        uuid=task_uuid(it.uuid, task.name),
        status=task.status,
        message=task.failure_message,
        exit_code=task.exit_code,
        start_time=at(task.start_time),
        end_time=at(task.end_time),
        node=task.node,
        gpus=task.gpus,
        lead=task.lead,
    )
