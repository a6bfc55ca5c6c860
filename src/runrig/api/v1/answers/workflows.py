"""Workflows, and the reasons why they wait, as answers."""

from typing import Any

from runrig.api.failures import details_of, status_of
from runrig.api.problems import problem
from runrig.api.shown import workflows as shared
from runrig.domain.blockers import Blocker
from runrig.domain.errors import RunrigError
from runrig.domain.workflows import Group, Status, Task, Workflow, task_uuid
from runrig.engine.explain.headlines import Headline
from runrig.engine.explain.pool_why import PoolWhy
from runrig.engine.state.timing import times_of
from runrig.service.commands.batches import Outcome
from runrig.service.commands.submissions import Accepted
from runrig.service.foresight.dry_runs import DryRunView
from runrig.service.queries.failures import Failure
from runrig.service.queries.pool_deletions import PoolDeletion
from runrig.service.queries.workflow_queries import GroupWhy, Listed, Preempted, WhyView, WorkflowView
from runrig.service.runtime.reconciler import Standstill
from runrig.wire import v1


def outcome(found: Outcome) -> v1.WorkflowOutcome:
    if isinstance(found, Accepted):
        return v1.WorkflowOutcome(id=found.id, warnings=list(found.warnings))
    return v1.WorkflowOutcome(problem=_problem(found))


def _problem(error: RunrigError) -> v1.ProblemDetails:
    return v1.ProblemDetails.model_validate(problem(status_of(error), error.message, error.code, details_of(error)))


def dry_run(view: DryRunView | None) -> v1.WorkflowDryRun | None:
    if view is None:
        return None
    groups = [
        v1.GroupDryRun(
            group=each.gang.partition("/")[2],
            verdict=each.verdict.value,
            nodes=list(each.nodes),
            stops=list(each.stops),
            reasons=[shared.reason_shown(reason) for reason in each.reasons],
        )
        for each in view.gangs
    ]
    return v1.WorkflowDryRun(verdict=view.verdict.value, sentence=view.sentence, groups=groups)


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
        cause=_cause(view.failure),
        cancelled_by=it.cancelled_by,
        repeats=it.parent,
        tags=list(view.tags),
        exec_timeout_s=None if spec is None else spec.exec_timeout_s,
        queue_timeout_s=None if spec is None else spec.queue_timeout_s,
        groups=[_group(view, group) for group in shared.in_file_order(view)],
        warnings=list(view.warnings),
    )


def _cause(found: Failure | None) -> v1.WorkflowCause | None:
    if found is None:
        return None
    return v1.WorkflowCause(
        task=found.task.name,
        attempt=found.task.retry_id,
        exit_code=found.task.exit_code,
        ending=found.ending,
        sentence=found.sentence,
        lines=list(found.lines),
        first=found.first,
        last=found.last,
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


# ---------------------------------------------------------------- why


def why(view: WhyView) -> v1.WorkflowWhy:
    return v1.WorkflowWhy(
        id=view.workflow.id,
        status=view.workflow.status.value,
        sentence=view.sentence,
        cause=_cause(view.failure),
        groups=[_group_why(each, view) for each in view.groups] or _former(view),
        ending=None if view.deletion is None else _ending(view.deletion),
        standstill=None if view.standstill is None else _standstill(view.standstill),
    )


def _group_why(group: GroupWhy, view: WhyView) -> v1.GroupWhy:
    gang = f"{view.workflow.id}/{group.group}"
    return v1.GroupWhy(
        group=group.group,
        state=group.status.value,
        position=group.position,
        ahead=group.ahead,
        verdict=None if group.verdict is None else group.verdict.value,
        stops=list(group.stops),
        reasons=[shared.reason_shown(each) for each in group.reasons],
        blockers=[_blocker(each) for each in group.blockers],
        in_full=[_blocker(each) for each in group.in_full],
        left=[
            v1.QuotaLeft(where=each.where, resource=each.resource, have=each.have, of=each.of) for each in group.left
        ],
        passed=group.passed,
        waits_for=list(group.waits_for),
        preempted=[_preemption(each) for each in view.preempted if each.gang == gang and not _runs_on(group)],
    )


def _runs_on(group: GroupWhy) -> bool:
    """True if it runs, and nobody has preempted this attempt: what became of earlier ones stands among the events."""
    return group.status in (Status.INITIALIZING, Status.RUNNING) and group.preempted_by is None


def _blocker(each: Blocker) -> v1.Blocker:
    return v1.Blocker(tier=each.tier.value, flavors=list(each.flavors), reason=shared.reason_shown(each.reason))


def pool_why(found: PoolWhy) -> v1.PoolWhy:
    return v1.PoolWhy(
        pool=found.pool,
        gangs=found.gangs,
        gpus=found.gpus,
        held=[
            v1.Held(reason=shared.reason_shown(each.reason), gangs=each.gangs, gpus=each.gpus, first=list(each.first))
            for each in found.held
        ],
        unasked=found.unasked,
    )


def _former(view: WhyView) -> list[v1.GroupWhy]:
    """The preemptors of a workflow that has ended, by group."""
    return [
        _group_why(group, view).model_copy(update={"state": view.workflow.status.value})
        for group in _former_groups(view)
    ]


def _former_groups(view: WhyView) -> list[GroupWhy]:
    gangs = sorted({each.gang for each in view.preempted})
    return [GroupWhy(gang.partition("/")[2], Status.FAILED_PREEMPTED) for gang in gangs]


def _preemption(each: Preempted) -> v1.Preemption:
    return v1.Preemption(at=v1.at(each.at), by=each.by, law=each.law, sentence=each.sentence)


def _ending(value: PoolDeletion) -> v1.PoolEnding:
    return v1.PoolEnding(
        pool=value.pool, by=value.by, at=v1.at(value.at), then=value.then.value, state=value.state.value
    )


def _standstill(value: Standstill) -> v1.Standstill:
    return v1.Standstill(since=v1.at(value.since), why=value.why)
