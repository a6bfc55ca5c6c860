"""Routes of workflows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from runrig.api.osmo import models
from runrig.api.routes import Router
from runrig.api.times import At
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.observed import ClusterEvent
from runrig.domain.records import Event
from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.domain.value import at
from runrig.domain.workflow_status import WorkflowStatus
from runrig.http.permissions import Asking, Seeing, named, needs, workflow
from runrig.http.routing import Base, IdempotencyKey, NamedUser, Serving
from runrig.http.staying import UNBUFFERED, Staying
from runrig.osmo import workflows as shaped
from runrig.osmo.shape import Shape
from runrig.ports.store import WorkflowQuery
from runrig.service import log_stream as logs
from runrig.service.commands.submission import Submission
from runrig.service.queries.events import each_in_words
from runrig.service.queries.output import STDERR
from runrig.spec.labels import read_key, read_selector, read_tags
from runrig.spec.template import is_template
from runrig.wire.json import to_plain

router = Router("workflows")

LONGEST_PAGE = 1000

PriorityName = Literal["HIGH", "NORMAL", "LOW"]
_STATUSES = frozenset(status.value for status in WorkflowStatus)
_NEVER = ("WAITING", "FAILED_SUBMISSION", "FAILED_IMAGE_PULL")
"""Osmo statuses that a workflow in runrig never has."""
if TYPE_CHECKING:
    StatusName = str
else:
    StatusName = Literal[tuple(sorted(_STATUSES | set(_NEVER)))]
TEXT = "text/plain; charset=utf-8"

_SUBMIT = needs(Permission.SUBMIT, named("pool"))
_READ = needs(Permission.READ_WORKFLOW, workflow("id"))
_CHANGE = needs(Permission.CHANGE_WORKFLOW, workflow("id"))


# ---------------------------------------------------------------- commands


@router("POST /api/pool/{pool}/workflow", _SUBMIT, shows=models.SubmitAnswer, errors=(409,))
async def submit(
    service: Serving,
    user: NamedUser,
    asker: Asking,
    base: Base,
    pool: str,
    key: IdempotencyKey,
    body: models.SubmitRequest | None = None,
    priority: Annotated[PriorityName | None, Query(description="Overrides the file. Default: NORMAL")] = None,
    env_vars: Annotated[list[str], Query(description="NAME=VALUE for every task")] = [],  # noqa: B006
    label: Annotated[list[str], Query(description="KEY=VALUE; overrides the file")] = [],  # noqa: B006
    dry_run: Annotated[bool, Query(description="Return the rendered file and store nothing")] = False,
    validation_only: Annotated[bool, Query(description="Validate only and store nothing")] = False,
    workflow_id: Annotated[str | None, Query(description="Submit the file of this workflow again (no body)")] = None,
) -> Shape:
    """Submit or validate a workflow."""
    chosen = None if priority is None else Priority(priority)
    if workflow_id is not None:
        # It would run with the secrets in that file, in another user's name.
        await run_in_threadpool(lambda: asker.need(Permission.CHANGE_WORKFLOW, asker.workflow(workflow_id)))
        again = service.submissions.submitting_again(workflow_id, pool=pool, user=user, priority=chosen, uuid=key)
        return _submitted(await service.arrivals.do(again, key), base)
    if body is None:
        raise InvalidInput.one('the body is missing. Send {"file": TEXT}, or set workflow_id', "file")
    # `workflow validate` sends the rendered text without its template, together with the settings.
    is_rendered = validation_only and not dry_run and not is_template(body.file)
    submission = Submission(
        text=body.file,
        pool=pool,
        user=user,
        variables=() if is_rendered else tuple(body.set_variables),
        string_variables=() if is_rendered else tuple(body.set_string_variables),
        template=body.uploaded_templated_spec,
        environment=tuple(env_vars),
        labels=tuple(label),
        priority=chosen,
        uuid=key,
        visibility=asker.visibility,
    )
    if dry_run:
        found = await run_in_threadpool(service.submissions.rendered, submission)
        return shaped.rendered({"id": found.id, "file": found.text, "warnings": found.warnings})
    if validation_only:
        return shaped.validated(to_plain(await run_in_threadpool(service.submissions.check, submission)))
    return _submitted(await service.arrivals.submit(submission), base)


@router("POST /api/pool/{pool}/workflow/{id}/restart", _SUBMIT, _CHANGE, shows=models.SubmitAnswer, errors=(409,))
async def restart(service: Serving, user: NamedUser, base: Base, pool: str, id: str, key: IdempotencyKey) -> Shape:
    """Restart a failed workflow."""
    command = service.submissions.restarting(id, pool=pool, user=user, uuid=key)
    return _submitted(await service.arrivals.do(command, key), base)


@router("POST /api/workflow/{id}/cancel", _CHANGE, errors=(409,))
async def cancel(
    service: Serving,
    user: NamedUser,
    id: str,
    message: Annotated[str, Query(description="Reason, shown to the owner", max_length=1000)] = "",
    force: bool = False,  # noqa: ARG001 - of the reference client; here a cancel always arrives
) -> models.CancelAnswer:
    """Cancel a workflow."""
    return models.CancelAnswer(
        name=await service.arrivals.do(service.submissions.cancelling(id, user=user, message=message))
    )


@router("POST /api/workflow/{id}/tag", _CHANGE, errors=(409,))
def tag(
    service: Serving,
    id: str,
    add: Annotated[list[str], Query(description="At most 16 tags")] = [],  # noqa: B006
    remove: Annotated[list[str], Query()] = [],  # noqa: B006
) -> models.TagsAnswer:
    """Add or remove tags of a workflow, also after it has finished."""
    if not (add or remove):
        raise InvalidInput.one("no tags given. Send add or remove", "add")
    return models.TagsAnswer(tags=list(service.submissions.tag(id, add=add, remove=remove)))


def _submitted(found: WorkflowSubmitted, base: str) -> Shape:
    return shaped.submitted(to_plain(found), shaped.links(base))


# ---------------------------------------------------------------- questions


@router("GET /api/workflow", needs(Permission.LIST_POOLS), shows=models.ListAnswer)
def list_workflows(
    service: Serving,
    user: NamedUser,
    visibility: Seeing,
    base: Base,
    users: Annotated[list[str], Query(description="Submitted by these users. Default: by you")] = [],  # noqa: B006
    all_users: bool = False,
    statuses: list[StatusName] = Query(default=[]),  # noqa: B008
    pools: Annotated[list[str], Query()] = [],  # noqa: B006
    all_pools: bool = False,  # noqa: ARG001 - of the reference client: without `pools` it is all of them
    priority: list[PriorityName] = Query(default=[]),  # noqa: B008
    name: Annotated[str | None, Query(description="Part of the ID")] = None,
    label: Annotated[list[str], Query(description="KEY=VALUE, with `*` and `(a|b)` in the value")] = [],  # noqa: B006
    no_label: Annotated[list[str], Query(description="Without a label of this key")] = [],  # noqa: B006
    tags: Annotated[list[str], Query(description="With one of these tags")] = [],  # noqa: B006
    app: Annotated[
        str | None, Query(description="Only workflows of this app (always an empty list, since runrig has no apps)")
    ] = None,
    submitted_after: At | None = None,
    submitted_before: At | None = None,
    order: Annotated[
        Literal["ASC", "DESC"], Query(description="Order within the page, which always has the newest workflows")
    ] = "DESC",
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 20,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Shape:
    """List workflows, newest first."""
    query = WorkflowQuery(
        pools=tuple(pools),
        users=() if all_users else tuple(users) or (user,),
        statuses=tuple(status for status in statuses if status in _STATUSES),
        priorities=tuple(priority),
        labels=tuple(map(read_selector, label)),
        no_labels=tuple(map(read_key, no_label)),
        tags=read_tags(tags),
        name=name,
        submitted_after=submitted_after,
        submitted_before=submitted_before,
        limit=limit,
        offset=offset,
    )
    if app is not None or (statuses and not query.statuses):
        return {"workflows": [], "more_entries": False}
    found, more = service.workflow_queries.workflows(query, visibility)
    entries = [shaped.entry(to_plain(each), shaped.links(base)) for each in found]
    return {"workflows": entries if order == "DESC" else entries[::-1], "more_entries": more}


@router("GET /api/tag", needs(Permission.LIST_POOLS))
def list_tags(service: Serving, visibility: Seeing) -> models.TagsAnswer:
    """List the tags of workflows that you can see."""
    return models.TagsAnswer(tags=list(service.workflow_queries.tags(visibility)))


@router("GET /api/workflow/{id}", _READ, shows=models.WorkflowAnswer)
def query(
    service: Serving,
    visibility: Seeing,
    base: Base,
    id: str,
    verbose: Annotated[bool, Query(description="All attempts of each task, not only the latest")] = False,
    skip_groups: Annotated[bool, Query(description="Omit groups and tasks")] = False,
) -> Shape:
    """Show a workflow with its groups and tasks."""
    found = to_plain(service.workflow_queries.workflow(id, visibility))
    if skip_groups:
        found["groups"] = []
    elif not verbose:
        for group in found["groups"]:
            group["tasks"] = list({task["name"]: task for task in group["tasks"]}.values())
    return shaped.workflow(found, shaped.links(base))


@router(
    "GET /api/workflow/{id}/events",
    _READ,
    text="2026-01-31 12:00:00.250000  train-1 submitted to pool vision by alice (priority NORMAL)\n",
)
def events(
    service: Serving,
    visibility: Seeing,
    id: str,
    task_name: str | None = None,
    retry_id: Annotated[int | None, Query(ge=0, description="Attempt. Default: all")] = None,
) -> Response:
    """Print the workflow's events, one per line."""
    found = service.workflow_queries.events(id, task=task_name, retry_id=retry_id, visibility=visibility)
    return Response(_lines(found), media_type=TEXT)


def _lines(found: Iterable[Event | ClusterEvent]) -> str:
    """Yields ``2026-01-31 12:00:00.250000  text`` for each event."""
    return "".join(f"{at(each.time):%Y-%m-%d %H:%M:%S.%f}  {text}\n" for each, text in each_in_words(found))


@router("GET /api/workflow/{id}/spec", _READ, text=models.SubmitRequest.example()["file"])
def spec(asker: Asking, id: str, use_template: bool = False) -> Response:
    """Show the workflow file, rendered or as submitted.

    Only the owner and the pool's admins can see values of variables, contents of files, and templates.
    """
    return Response(asker.file_of(id, template=use_template, parameter="use_template"), media_type=TEXT)


# ---------------------------------------------------------------- output of tasks

TaskName = Annotated[
    str | None,
    Query(description="Pod. Default: all pods, with the pod's name before each line unless there is only one"),
]
RetryId = Annotated[int | None, Query(ge=0, description="Attempt. Default: the latest")]
LastLines = Annotated[int | None, Query(ge=0, description="Only the last lines of each task")]
Follow = Annotated[bool, Query(description="Follow the output until the tasks end or permission to read them is lost")]


@router("GET /api/workflow/{id}/logs", _READ, text="[main-0] epoch 1\n[main-1] epoch 1\n")
def log(
    service: Serving,
    stays: Staying,
    id: str,
    task_name: TaskName = None,
    retry_id: RetryId = None,
    last_n_lines: LastLines = None,
    follow: Follow = False,
) -> Response:
    """Print stdout and stderr of its tasks, in order of time."""
    request = logs.LogRequest(id, task_name, retry_id, last_n_lines, follow)
    return StreamingResponse(logs.stream(service, request, stays), media_type=TEXT, headers=UNBUFFERED)


@router("GET /api/workflow/{id}/error_logs", _READ, text="warning: no GPU found\n")
def error_log(
    service: Serving,
    stays: Staying,
    id: str,
    task_name: TaskName = None,
    retry_id: RetryId = None,
    last_n_lines: LastLines = None,
    follow: Follow = False,
) -> Response:
    """Print stderr of its tasks."""
    request = logs.LogRequest(id, task_name, retry_id, last_n_lines, follow, (STDERR,))
    return StreamingResponse(logs.stream(service, request, stays), media_type=TEXT, headers=UNBUFFERED)
