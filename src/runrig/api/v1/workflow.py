"""One workflow: its state, why it waits, its events, file and output."""

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from runrig.api.routes import RECORDS, Router
from runrig.api.times import At
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cut
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput, NotLoggedIn
from runrig.domain.shown.changes import WorkflowChanges
from runrig.domain.shown.events import WorkflowEventPage
from runrig.domain.shown.gpu_use import WorkflowGpuHistory, WorkflowGpuUse
from runrig.domain.shown.why import WorkflowWhy
from runrig.domain.shown.workflows import Workflow, WorkflowTags
from runrig.domain.tags import etag_of
from runrig.domain.workflow_status import WorkflowStatus
from runrig.http.leaving import leaving_of
from runrig.http.permissions import Asking, Seeing, needs, workflow
from runrig.http.routing import Asked, IfMatch, Serving, reply
from runrig.http.staying import UNBUFFERED, Staying, present, staying
from runrig.service import log_stream as logs
from runrig.service.queries.events import workflow_events
from runrig.service.queries.visibility import Visibility
from runrig.service.waiting import statuses
from runrig.wire import v1

router = Router("workflows")

LONGEST_WAIT_S = 3600.0
TEXT = "text/plain; charset=utf-8"

_READ = needs(Permission.READ_WORKFLOW, workflow("id"))

TaskName = Annotated[str | None, Query(description="Only this pod. Default: all pods")]
Attempt = Annotated[int | None, Query(ge=0, description="None: the latest")]


@router("GET /api/v1/workflows/{id}", _READ, shows=Workflow, tag=True)
def get_workflow(service: Serving, visibility: Seeing, id: str) -> Response:
    """Show a workflow with its groups and tasks.

    The ETag depends on its tags, the only part that can be edited.
    """
    found = service.workflow_queries.workflow(id, visibility)
    return reply(found, etag=etag_of(found.tags))


@router("GET /api/v1/workflows/{id}/why", _READ)
def explain_workflow(
    service: Serving,
    asker: Asking,
    request: Asked,
    id: str,
    changes: Annotated[
        Literal["none", "own", "all"],
        Query(description="Also find changes that would start it: by the owner (own) or by anyone (all)"),
    ] = "none",
    depth: Annotated[int, Query(ge=1, le=2, description="Maximum number of the owner's changes to combine")] = 1,
    element: Annotated[
        str | None, Query(description="Only this element of an array. Default: the first in each status")
    ] = None,
) -> WorkflowWhy:
    """Explain why a workflow is waiting and which changes would start it.

    Each change was tried by the engine. Changes of pools, cohorts and nodes are tried only for users who may make
    them. The search takes longer than the rest, and can be refused with 503.
    """
    if changes == "none" and depth > 1:
        raise InvalidInput.one("depth requires changes=own or changes=all", "depth")
    why = service.workflow_queries.why(id, asker.visibility, element)
    if changes == "none" or not any(group.position for group in why.groups):
        return why
    return replace(why, changes=list_starting_changes(service, asker, request, id, changes, depth))


@router("GET /api/v1/workflows/{id}/gpu-use", _READ)
def get_gpu_use(service: Serving, visibility: Seeing, id: str) -> WorkflowGpuUse:
    """Show how busy the GPUs of its running tasks are.

    As NVML reports it on the local backend. Other backends cannot measure it: *unknown* is the reason.
    """
    return service.workflow_queries.gpu_use(service.workflow_queries.workflow(id, visibility))


@router("GET /api/v1/workflows/{id}/gpu-history", _READ)
def get_gpu_history(service: Serving, visibility: Seeing, id: str) -> WorkflowGpuHistory:
    """Show how busy the GPUs of its tasks were.

    Minute by minute, for 24 hours, since the server started. Only the local backend measures GPUs.
    """
    return service.workflow_queries.gpu_history(service.workflow_queries.workflow(id, visibility))


@router("GET /api/v1/workflows/{id}/changes", _READ)
def list_starting_changes(
    service: Serving,
    asker: Asking,
    request: Asked,
    id: str,
    by: Annotated[Literal["own", "all"], Query(description="Changes by the owner (own) or by anyone (all)")] = "own",
    depth: Annotated[int, Query(ge=1, le=2, description="Maximum number of the owner's changes to combine")] = 1,
) -> WorkflowChanges:
    """List changes that would start a workflow.

    Each change was tried by the engine. Changes of pools, cohorts and nodes are tried only for users who may make
    them. The search can take seconds, and can be refused with 503. Empty if the workflow is not in the queue.
    """
    return service.change_queries.would_start(
        id, asker.identity, others=by == "all", depth=depth, leaving=leaving_of(request)
    )


@router("GET /api/v1/workflows/{id}/wait", _READ)
async def wait_for_workflow(
    request: Asked,
    service: Serving,
    id: str,
    status: Annotated[WorkflowStatus | None, Query(alias="for", description="Default: until it finishes")] = None,
    timeout: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="Seconds")] = 30.0,
) -> Workflow:
    """Wait until a workflow reaches a status, finishes or the timeout expires."""
    stays = await run_in_threadpool(staying, request)
    async for reached in statuses(service, id, timeout):
        if reached is status or stays() is None:
            break
    if (who := present(request)) is None:
        raise NotLoggedIn
    return await run_in_threadpool(service.workflow_queries.workflow, id, Visibility(who))


@router("GET /api/v1/workflows/{id}/events", _READ)
def list_workflow_events(
    service: Serving,
    visibility: Seeing,
    id: str,
    task: TaskName = None,
    attempt: Annotated[int | None, Query(ge=0, description="None: all")] = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> WorkflowEventPage:
    """List the workflow's events in order."""
    found = service.workflow_queries.events(id, task=task, retry_id=attempt, visibility=visibility)
    page, following = cut(workflow_events(found), lambda each: each.place, limit, cursor, float, int, int, int)
    return WorkflowEventPage(following, tuple(page))


@router("GET /api/v1/workflows/{id}/spec", _READ, text=v1.WorkflowFile.example()["file"])
def get_workflow_spec(
    asker: Asking,
    id: str,
    template: Annotated[bool, Query(description="Return the file as submitted, before rendering")] = False,
) -> Response:
    """Show the workflow file, rendered or as submitted.

    Only the owner and the pool's admins can see values of variables, contents of files, and templates.
    """
    return Response(asker.file_of(id, template=template, parameter="template"), media_type=TEXT)


_RECORD = '{"time":"2026-01-31T12:00:00Z","task":"main","attempt":0,"stream":"stdout","text":"epoch 1"}\n'


@router("GET /api/v1/workflows/{id}/logs", _READ, text="[main-0] epoch 1\n[main-1] epoch 1\n", records=_RECORD)
def get_workflow_logs(
    service: Serving,
    stays: Staying,
    id: str,
    task: TaskName = None,
    attempt: Annotated[
        int | Literal["all"] | None, Query(description="Attempt, from 0, or all. Default: the latest")
    ] = None,
    stream: Annotated[
        Literal["stdout", "stderr", "both"], Query(description="Default: both, merged in order of time")
    ] = "stdout",
    last_lines: Annotated[
        int | None, Query(ge=0, description="Only the last lines of each stream of each task")
    ] = None,
    follow: Annotated[
        bool, Query(description="Follow the output until the tasks end or permission to read them is lost")
    ] = False,
    since: Annotated[At | None, Query(description="Only output written since this time")] = None,
    format: Annotated[
        Literal["text", "records"],
        Query(
            description="Records: one JSON object per line with time, task, attempt, stream and text. "
            "While nothing is printed, followers get spaces"
        ),
    ] = "text",
    group: Annotated[str | None, Query(description="Only this task group, such as an element of an array")] = None,
) -> Response:
    """Print the output of its tasks in order of time, with the pod's name before each line unless there is only
    one.
    """
    request = logs.LogRequest(
        id,
        task,
        attempt if isinstance(attempt, int) else None,
        last_lines,
        follow,
        logs.BOTH if stream == "both" else (stream,),
        every_attempt=attempt == "all",
        since=since,
        records=format == "records",
        group=group,
    )
    media_type = RECORDS if request.records else TEXT
    return StreamingResponse(logs.stream(service, request, stays), media_type=media_type, headers=UNBUFFERED)


@router(
    "PATCH /api/v1/workflows/{id}/tags",
    needs(Permission.CHANGE_WORKFLOW, workflow("id")),
    tag=True,
    errors=(409,),
)
def tag_workflow(service: Serving, expected: IfMatch, id: str, body: v1.WorkflowTagEdit) -> WorkflowTags:
    """Add or remove tags of a workflow, also after it has finished."""
    tags = service.submissions.tag(id, add=body.add, remove=body.remove, expected=expected)
    return WorkflowTags(tags, etag=etag_of(tags))


@router("GET /api/v1/workflow-tags", needs(Permission.LIST_POOLS))
def list_workflow_tags(service: Serving, visibility: Seeing) -> WorkflowTags:
    """List the tags of workflows that you can see."""
    return WorkflowTags(service.workflow_queries.tags(visibility))
