"""Workflows, their events and the reasons why they wait, as answers."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from urllib.parse import quote

from runrig import wire
from runrig.domain.gangs import Gang
from runrig.domain.observed import ClusterEvent
from runrig.domain.plan import Admit, Queue
from runrig.domain.reasons import Reason
from runrig.domain.records import Event
from runrig.domain.workflows import Group, Status, Task, Workflow, task_uuid
from runrig.service.commands.submissions import Accepted
from runrig.service.queries.events import granted_in_words, in_words
from runrig.service.queries.pod_counts import pod_counts
from runrig.service.queries.pool_deletions import PoolDeletion
from runrig.service.queries.workflow_queries import GroupWhy, Listed, Preempted, WhyView, WorkflowView
from runrig.service.runtime.reconciler import Standstill
from runrig.wire import utc


def _at(seconds: float) -> datetime:
    moment = utc(seconds)
    assert moment is not None, "a time that is set"
    return moment


def link(base: str, id: str, rest: str = "") -> str:
    return f"{base}/api/workflow/{quote(id)}{rest}"


def queued_s(workflow: Workflow, now: float) -> float:
    """Seconds until its first task ran, or it ended without running, or until now."""
    return round(max(0.0, (workflow.start_time or workflow.end_time or now) - workflow.submit_time), 6)


def duration_s(workflow: Workflow, now: float) -> float | None:
    if workflow.start_time is None:
        return None
    return round(max(0.0, (workflow.end_time or now) - workflow.start_time), 6)


def checked(found: Accepted) -> wire.SubmitAnswer:
    """The answer to a validation."""
    return wire.SubmitAnswer(name=found.id, logs=f"{found.id} would be accepted", warnings=list(found.warnings))


def entry(listed: Listed, base: str, now: float) -> wire.ListEntry:
    workflow = listed.workflow
    return wire.ListEntry(
        user=workflow.submitted_by,
        name=workflow.id,
        workflow_uuid=workflow.uuid,
        submit_time=_at(workflow.submit_time),
        start_time=utc(workflow.start_time),
        end_time=utc(workflow.end_time),
        queued_time=queued_s(workflow, now),
        duration=duration_s(workflow, now),
        status=workflow.status.value,
        overview=link(base, workflow.id),
        logs=link(base, workflow.id, "/logs"),
        error_logs=link(base, workflow.id, "/error_logs"),
        pool=workflow.pool,
        priority=workflow.priority.value,
        labels=dict(workflow.labels),
        gpus=listed.gpus,
        gpus_asked=listed.asked,
    )


def workflow(view: WorkflowView, base: str, backend: str) -> wire.WorkflowAnswer:
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
        overview=link(base, it.id),
        parent_name=it.parent,
        submit_time=_at(it.submit_time),
        start_time=utc(it.start_time),
        end_time=utc(it.end_time),
        exec_timeout=None if spec is None else spec.exec_timeout_s,
        queue_timeout=None if spec is None else spec.queue_timeout_s,
        duration=duration_s(it, view.now),
        queued_time=queued_s(it, view.now),
        tags=list(view.tags),
        status=it.status.value,
        groups=[_group(view, group, base) for group in in_file_order(view)],
        pool=it.pool,
        backend=backend,
        priority=it.priority.value,
        labels=dict(it.labels),
        failure_message=it.failure_message or None,
    )


def in_file_order(view: WorkflowView) -> list[Group]:
    if view.spec is None:
        return list(view.stored.groups)
    order = {group.name: place for place, group in enumerate(view.spec.groups)}
    return sorted(view.stored.groups, key=lambda group: (order.get(group.name, len(order)), group.name))


def _group(view: WorkflowView, group: Group, base: str) -> wire.GroupAnswer:
    upstream, downstream = neighbours(view, group.name)
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
        tasks=[_task(view.stored.workflow, task, base) for task in tasks_of(view, group)],
        attempt=group.attempt,
        preemptions=group.preemptions,
        pods=pods(view, group),
    )


def tasks_of(view: WorkflowView, group: Group) -> list[Task]:
    """The attempts of the group's pods, in the order of the file."""
    return sorted(
        (task for task in view.stored.tasks if task.group == group.name),
        key=lambda task: (*_place_of(view, task), task.index, task.retry_id),
    )


def pods(view: WorkflowView, group: Group) -> list[wire.PodsAnswer]:
    """Nothing where the specification is gone."""
    counts = () if view.spec is None else pod_counts(view.spec.group(group.name), group, view.stored.tasks)
    return [wire.PodsAnswer(task=each.task, asked=each.asked, least=each.least, got=each.got) for each in counts]


def neighbours(view: WorkflowView, name: str) -> tuple[tuple[str, ...], list[str]]:
    """(groups before, groups after); empty if the specification is gone."""
    groups = () if view.spec is None else view.spec.groups
    upstream = next((group.upstream for group in groups if group.name == name), ())
    return upstream, [group.name for group in groups if name in group.upstream]


def _place_of(view: WorkflowView, task: Task) -> tuple[int, str]:
    """The position of the task in the file, to sort by."""
    groups = () if view.spec is None else view.spec.groups
    names = [spec.name for group in groups if group.name == task.group for spec in group.tasks]
    return (names.index(task.spec) if task.spec in names else len(names), task.spec)


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


def events(found: Iterable[Event | ClusterEvent]) -> list[wire.EventAnswer]:
    return [_event(each, text) for each, text in each_in_words(found)]


def _event(value: Event | ClusterEvent, text: str) -> wire.EventAnswer:
    if isinstance(value, ClusterEvent):
        return wire.EventAnswer(
            revision=None,
            seq=None,
            time=_at(value.time),
            actor=value.source,
            kind=value.reason,
            law=None,
            text=text,
        )
    return wire.EventAnswer(
        revision=value.revision,
        seq=value.seq,
        time=_at(value.time),
        actor=value.actor,
        kind=type(value.action).__name__,
        law=value.law,
        text=text,
    )


def event_lines(found: Iterable[Event | ClusterEvent]) -> str:
    """``2026-01-31 12:00:00.250000  text`` per event."""
    return "".join(f"{_at(each.time).isoformat(' ', 'microseconds')}  {text}\n" for each, text in each_in_words(found))


def each_in_words(found: Iterable[Event | ClusterEvent]) -> Iterator[tuple[Event | ClusterEvent, str]]:
    """Each with its words.  An admission is compared with what the gang asked for when it was queued."""
    gangs: dict[str, Gang] = {}
    for event in found:
        if isinstance(event, ClusterEvent):
            yield event, _noted(event)
            continue
        action, granted = event.action, ""
        if isinstance(action, Queue):
            gangs[action.gang.id] = action.gang
        elif isinstance(action, Admit) and action.gang in gangs:
            granted = granted_in_words(gangs[action.gang], action.placement)
        yield event, in_words(action) + granted


def _noted(event: ClusterEvent) -> str:
    """A line from a program of the cluster begins with the program's name: ``kubelet: task main (attempt 0): Pulled: …  (x3)``."""
    key = event.key
    about = f"task {key.task} (attempt {key.retry_id})" if key else f"group {event.group}" if event.group else ""
    reason = "" if event.text.startswith(event.reason) else event.reason
    words = ": ".join(part for part in (event.source, about, reason, event.text) if part)
    return words if event.count == 1 else f"{words} (x{event.count})"


def why(view: WhyView) -> wire.WhyAnswer:
    return wire.WhyAnswer(
        workflow=view.workflow.id,
        status=view.workflow.status.value,
        groups=[_group_why(group, view) for group in view.groups] or _former(view),
        sentence=view.sentence,
        ending=None if view.deletion is None else _deletion(view.deletion),
        standstill=None if view.standstill is None else _standstill(view.standstill),
    )


def _standstill(value: Standstill) -> wire.StandstillAnswer:
    return wire.StandstillAnswer(since=_at(value.since), why=value.why)


def _deletion(value: PoolDeletion) -> wire.PoolEndingAnswer:
    return wire.PoolEndingAnswer(
        pool=value.pool, by=value.by, at=_at(value.at), then=value.then.value, state=value.state.value
    )


def _group_why(group: GroupWhy, view: WhyView) -> wire.GroupWhyAnswer:
    gang = f"{view.workflow.id}/{group.group}"
    return wire.GroupWhyAnswer(
        group=group.group,
        state=group.status.value,
        position=group.position,
        ahead=group.ahead,
        reasons=[reason_shown(reason) for reason in group.reasons],
        waits_for=list(group.waits_for),
        preempted=[_preempted(each) for each in view.preempted if each.gang == gang],
    )


def _former(view: WhyView) -> list[wire.GroupWhyAnswer]:
    """The preemptors of a workflow that has ended, by group."""
    return [
        _group_why(group, view).model_copy(update={"state": view.workflow.status.value})
        for group in former_groups(view)
    ]


def former_groups(view: WhyView) -> list[GroupWhy]:
    gangs = sorted({each.gang for each in view.preempted})
    return [GroupWhy(gang.partition("/")[2], Status.FAILED_PREEMPTED) for gang in gangs]


def reason_shown(reason: Reason) -> wire.ReasonAnswer:
    return wire.ReasonAnswer(
        code=reason.code.value,
        law=reason.law,
        where=reason.where,
        resource=reason.resource,
        have=reason.have,
        need=reason.need,
        holders=list(reason.holders),
        domains=[
            wire.DomainRoomAnswer(domain=list(domain.domain), have=domain.have, missing=dict(domain.missing))
            for domain in reason.domains
        ],
        own=reason.own,
        shared=dict(reason.shared),
        sentence=str(reason),
    )


def _preempted(each: Preempted) -> wire.PreemptionAnswer:
    return wire.PreemptionAnswer(at=_at(each.at), by=each.by, law=each.law, sentence=each.sentence)
