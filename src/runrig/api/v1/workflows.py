"""Workflows: submit, cancel, hold, repeat, and list."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import Query, Response
from starlette.concurrency import run_in_threadpool

from runrig.api.routes import Router
from runrig.api.times import At
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cursor_of, place_of
from runrig.backends.kubernetes import objects
from runrig.domain.access import Permission
from runrig.domain.attached import LOST_S, RENEW_S
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.shown.workflows import WorkflowPage, WorkflowSubmitted
from runrig.domain.statuses import status_of
from runrig.domain.workflow_status import WorkflowStatus
from runrig.http.failures import details_of
from runrig.http.permissions import Asking, Seeing, Sent, needs, workflow
from runrig.http.problems import problem
from runrig.http.routing import IdempotencyKey, Serving, User, reply
from runrig.ports.store import WorkflowQuery
from runrig.service.commands.batches import Outcome
from runrig.service.commands.restarts import Changes
from runrig.service.commands.submission import Submission, filled_in
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.runtime.rendering import DEFAULT_NAMESPACE
from runrig.spec.arrays import Given
from runrig.spec.labels import read_key, read_selector, read_tags
from runrig.wire import v1

router = Router("workflows")

MOST_EXPLAINED = 100
"""Workflows on a page that includes why they wait."""

_SUBMIT = needs(Permission.SUBMIT, Sent("pool"))
_CHANGE = needs(Permission.CHANGE_WORKFLOW, workflow("id"))


@router("POST /api/v1/workflows", _SUBMIT, creates=WorkflowSubmitted, errors=(404, 409))
async def submit_workflow(
    service: Serving, asker: Asking, user: User, key: IdempotencyKey, body: v1.WorkflowSubmit
) -> Response:
    """Submit a workflow."""
    return _submitted(await service.arrivals.submit(submission_of(body, body, user, asker.visibility, key)))


def submission_of(
    file: v1.WorkflowFile,
    whole: v1.WorkflowSubmit | v1.WorkflowBatch,
    user: str,
    visibility: Visibility,
    key: str | None = None,
) -> Submission:
    return Submission(
        text=file.file,
        pool=whole.pool,
        user=user,
        variables=tuple(file.variables),
        string_variables=tuple(file.string_variables),
        template=file.template,
        environment=_environment(whole.environment),
        labels=tuple(f"{name}={value}" for name, value in whole.labels.items()),
        priority=_priority(whole.priority),
        uuid=key,
        retry=whole.retry,
        after=tuple(whole.after),
        given=Given(whole.array, tuple(whole.sweep), whole.most),
        visibility=visibility,
    )


def _environment(values: Mapping[str, str]) -> tuple[str, ...]:
    for name in values:
        if "=" in name:
            raise InvalidInput.one(
                f"environment: invalid variable name {name!r:.80}. Names cannot contain '='", "environment"
            )
    return tuple(f"{name}={value}" for name, value in values.items())


def _priority(name: v1.PriorityName | None) -> Priority | None:
    return None if name is None else Priority(name)


def _submitted(accepted: WorkflowSubmitted) -> Response:
    return reply(accepted, 201, location=f"/api/v1/workflows/{accepted.id}")


@router("POST /api/v1/workflows:batch", _SUBMIT, errors=(404, 409))
async def submit_workflows(
    service: Serving, asker: Asking, user: User, key: IdempotencyKey, body: v1.WorkflowBatch
) -> v1.WorkflowOutcomes:
    """Submit up to 1,000 workflows individually, or up to 200 all-or-nothing.

    Status 200 means that each item has a result, not that each was submitted. With an Idempotency-Key, repeating a
    batch submits nothing twice and continues an interrupted one.
    """
    batch = [submission_of(each, body, user, asker.visibility) for each in body.workflows]
    outcomes = await service.arrivals.submit_batch(batch, key=key, together=body.all_or_nothing)
    found = [_outcome(each) for each in outcomes]
    return v1.WorkflowOutcomes(submitted=sum(each.problem is None for each in found), outcomes=found)


def _outcome(found: Outcome) -> v1.WorkflowOutcome:
    if isinstance(found, WorkflowSubmitted):
        return v1.WorkflowOutcome(id=found.id, warnings=list(found.warnings))
    about = problem(status_of(found), found.message, found.code, details_of(found))
    return v1.WorkflowOutcome(problem=v1.ProblemDetails.model_validate(about))


@router("POST /api/v1/workflows:check", _SUBMIT, errors=(404,))
def check_workflow(service: Serving, user: User, visibility: Seeing, body: v1.WorkflowCheck) -> v1.WorkflowChecked:
    """Preview a submission. Nothing is stored."""
    submission = submission_of(body, body, user, visibility)
    if body.template_only:
        return v1.WorkflowChecked(id=None, file=filled_in(submission), warnings=[], verdict=None)
    found = service.submissions.check(submission)
    verdict = service.dry_runs.of(found.gangs, visibility, found.in_array)
    return v1.WorkflowChecked(id=found.id, file=found.text, warnings=list(found.warnings), verdict=verdict)


@router("POST /api/v1/workflows:render", _SUBMIT, errors=(404,))
def render_workflow(service: Serving, user: User, body: v1.WorkflowRender) -> v1.RenderAnswer:
    """Render the Kubernetes objects of a workflow. Nothing is stored."""
    found = service.submissions.blueprint(submission_of(body, body, user, ALL), body.namespace or DEFAULT_NAMESPACE)
    pulls = service.access.credentials.pulls(user)
    return v1.RenderAnswer(objects=list(objects.render(found, lambda _: pulls)))


@router("POST /api/v1/workflows/{id}/repeat", _SUBMIT, _CHANGE, creates=WorkflowSubmitted, errors=(409,))
async def repeat_workflow(
    service: Serving, user: User, key: IdempotencyKey, id: str, body: v1.WorkflowRepeat
) -> Response:
    """Submit a workflow's file again."""
    if body.failed_only or body.keep_completed or body.code is not None:
        labels = tuple(f"{name}={value}" for name, value in body.labels.items())
        changes = Changes(body.keep_completed, body.code, labels)
        command = service.submissions.restarting(id, pool=body.pool, user=user, uuid=key, changes=changes)
    else:
        priority = _priority(body.priority)
        command = service.submissions.submitting_again(id, pool=body.pool, user=user, priority=priority, uuid=key)
    return _submitted(await service.arrivals.do(command, key))


@router("POST /api/v1/workflows/{id}/cancel", _CHANGE, errors=(409,))
async def cancel_workflow(service: Serving, user: User, id: str, body: v1.WorkflowCancel) -> v1.WorkflowCancelled:
    """Cancel a workflow."""
    command = service.submissions.cancelling(id, user=user, message=body.message)
    return v1.WorkflowCancelled(id=await service.arrivals.do(command))


@router("POST /api/v1/workflows/{id}/elements/{element}/cancel", _CHANGE, errors=(409,))
async def cancel_element(
    service: Serving, user: User, id: str, element: str, body: v1.WorkflowCancel
) -> v1.WorkflowCancelled:
    """Cancel one element of an array.

    The next waiting element enters the queue (rule W4).
    """
    command = service.submissions.cancelling_element(id, element, user=user, message=body.message)
    return v1.WorkflowCancelled(id=f"{await service.arrivals.do(command)}/{element}")


@router("POST /api/v1/workflows/{id}/array", _CHANGE, errors=(409,))
async def change_array(service: Serving, user: User, id: str, body: v1.WorkflowArrayEdit) -> v1.WorkflowArrayChanged:
    """Change how many elements of an array may run at a time.

    Running elements continue (rule W4).
    """
    if body.dry_run:
        queued, left = await run_in_threadpool(service.submissions.check_most, id, body.most, user=user)
        return v1.WorkflowArrayChanged(id=id, most=body.most, queued=queued, unqueued=left)
    id = await service.arrivals.do(service.submissions.setting_most(id, body.most, user=user))
    return v1.WorkflowArrayChanged(id=id, most=body.most)


@router(
    "POST /api/v1/workflows/{id}/attach",
    _CHANGE,
    errors=(409,),
    description=f"Repeat this at least every {RENEW_S} seconds. After {LOST_S} seconds without it, the workflow is cancelled, and "
    "also after a restart of the server.",
)
def attach_workflow(service: Serving, id: str) -> None:
    """Tie a workflow to the command that follows it."""
    service.leases.renew(id)


@router("POST /api/v1/workflows/{id}/hold", _CHANGE, errors=(409,))
async def hold_workflow(service: Serving, user: User, id: str) -> v1.WorkflowNamed:
    """Hold a workflow: groups that have not started stay out of the queue.

    The workflow leaves the queue and keeps its submit time. Running groups continue.
    """
    return v1.WorkflowNamed(id=await service.arrivals.do(service.submissions.holding(id, user=user)))


@router("POST /api/v1/workflows/{id}/release", _CHANGE, errors=(409,))
async def release_workflow(service: Serving, user: User, id: str) -> v1.WorkflowNamed:
    """Release a held workflow."""
    return v1.WorkflowNamed(id=await service.arrivals.do(service.submissions.releasing(id, user=user)))


@router("POST /api/v1/workflows/{id}/reassign", _CHANGE, errors=(409,))
async def reassign_workflow(
    service: Serving, user: User, asker: Asking, id: str, body: v1.WorkflowReassign
) -> v1.WorkflowReassigned:
    """Change the priority of a workflow, or its pool before it starts.

    The same checks apply as for a submission. The workflow keeps its submit time, and its nodes if it has started.
    """
    priority = _priority(body.priority)
    if body.pool is not None:
        await run_in_threadpool(asker.need_submit, body.pool)
    if not body.dry_run:
        command = service.submissions.reassigning(id, user=user, pool=body.pool, priority=priority)
        return v1.WorkflowReassigned(id=await service.arrivals.do(command), verdict=None)

    def checked() -> v1.WorkflowReassigned:
        gangs, on_nodes = service.submissions.check_reassignment(id, user=user, pool=body.pool, priority=priority)
        verdict = service.dry_runs.of(gangs, asker.visibility) if gangs else None
        return v1.WorkflowReassigned(id=id, verdict=verdict, on_nodes=on_nodes)

    return await run_in_threadpool(checked)


@router("GET /api/v1/workflows", needs(Permission.LIST_POOLS), errors=(404,))
def list_workflows(
    service: Serving,
    asks: User,
    asker: Asking,
    user: Annotated[list[str], Query(description="Submitted by these users")] = [],  # noqa: B006
    mine: Annotated[bool, Query(description="Submitted by you; `user` is then ignored")] = False,
    status: list[WorkflowStatus] = Query(default=[]),  # noqa: B008
    pool: Annotated[list[str], Query(description="In these pools, without their subpools")] = [],  # noqa: B006
    priority: list[v1.PriorityName] = Query(default=[]),  # noqa: B008
    label: Annotated[list[str], Query(description="KEY=VALUE, with `*` and `(a|b)` in the value")] = [],  # noqa: B006
    no_label: Annotated[list[str], Query(description="Without a label of this key")] = [],  # noqa: B006
    tag: Annotated[list[str], Query(description="With one of these tags")] = [],  # noqa: B006
    name: Annotated[str | None, Query(description="Part of the ID")] = None,
    submitted_after: Annotated[At | None, Query(description="From this time, inclusive")] = None,
    submitted_before: Annotated[At | None, Query(description="Until this time, inclusive")] = None,
    why: Annotated[bool, Query(description="Include why each is waiting; limits pages to 100 items")] = False,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> WorkflowPage:
    """List workflows, newest first."""
    behind, visibility = place_of(cursor, float, int, str), asker.visibility
    for each in pool:
        service.queries.check_pool(each, visibility)
    service.workflow_queries.check_users(user, asker.known_users(asks), visibility)
    query = WorkflowQuery(
        pools=tuple(pool),
        users=(asks,) if mine else tuple(user),
        statuses=tuple(each.value for each in status),
        priorities=tuple(priority),
        labels=tuple(map(read_selector, label)),
        no_labels=tuple(map(read_key, no_label)),
        tags=read_tags(tag),
        name=name,
        submitted_after=submitted_after,
        submitted_before=submitted_before,
        limit=min(limit, MOST_EXPLAINED) if why else limit,
        behind=None if behind is None else (behind[0], behind[1], behind[2]),
    )
    found, more = service.workflow_queries.workflows(query, visibility)
    if why:
        found = service.workflow_queries.with_headlines(found, visibility)
    last = found[-1] if more else None
    following = None if last is None else cursor_of((last.submit_time.timestamp(), last.number, last.id))
    return WorkflowPage(following, found)
