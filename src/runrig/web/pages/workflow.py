"""One workflow: its state and reasons, groups and attempts, events, output and file."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from runrig.api.http.leaving import leaving_of
from runrig.api.permissions import Asking, needs
from runrig.api.permissions import workflow as of_workflow
from runrig.api.routing import Route, Serving
from runrig.api.staying import Staying
from runrig.domain.access import Permission
from runrig.domain.errors import NotFound, Unavailable
from runrig.domain.observed import ClusterEvent
from runrig.domain.reason_lines import domain_line, part_line
from runrig.domain.reasons import Part, Reason
from runrig.domain.records import Event
from runrig.domain.shown.changes import WorkflowChanges
from runrig.domain.shown.why import WorkflowWhy
from runrig.domain.shown.workflows import TaskGroup, Workflow
from runrig.service import log_stream as logs
from runrig.service.past.past import Then
from runrig.service.queries.events import workflow_events
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.spec.masked import masked
from runrig.web.attempts import attempts_of
from runrig.web.drawings import Box, graph
from runrig.web.folding import folded
from runrig.web.pages.acts import acts_on
from runrig.web.pages.parts import Asked
from runrig.web.pages.past import At, Views, looking
from runrig.web.rendering import html, kind_of, printable

router = APIRouter(route_class=Route, include_in_schema=False)

MOST_EVENTS = 500
"""The latest ones; the log has all of them."""
MOST_TASKS = 100
LAST_LINES = 200
"""Lines of output on the page."""
LARGEST_OUTPUT = 256 * 1024
"""Bytes on the page."""
TIERS = {
    "submission": "Submitted",
    "order": "Order",
    "quota": "Quota",
    "shape": "Nodes",
    "preemption": "Preempt",
    "waiting_for": "Waiting for",
}
WHO = {"owner": "you", "admin": "admin", "wait": "wait"}
_READ = [needs(Permission.READ_WORKFLOW, of_workflow("id"))]

Search = Literal["", "own", "all"]


@router.get("/workflow/{id}", dependencies=_READ)
def workflow(
    request: Asked,
    service: Serving,
    asker: Asking,
    id: str,
    would: Annotated[
        Search, Query(description="Find changes that would start it: by the owner (own), or by anyone (all)")
    ] = "",
    task: Annotated[str, Query(description="Task whose output to show. Default: all tasks")] = "",
    at: At = "",
) -> Response:
    with looking(request, service, at) as (views, bar):
        shown, why, found = _seen(views, id, asker.visibility)
        now = views.workflow_queries.now()
    past = isinstance(views, Then)
    events = workflow_events(found)
    attempts = attempts_of(each for each in found if isinstance(each, Event))
    whole = asker.may(Permission.CHANGE_WORKFLOW, asker.workflow(shown.id))
    file = _file(service, shown.id, whole=whole)
    return html(
        request,
        "workflow.html",
        it=shown,
        why=why,
        waits=any(group.position is not None for group in why.groups),
        graph=graph([_box(group) for group in shown.groups]),
        attempts=attempts,
        begin=min((each.queued for each in attempts), default=now),
        end=max([each.end or now for each in attempts], default=now),
        now=now,
        events=folded(events[-MOST_EVENTS:][::-1]),
        earlier=max(0, len(events) - MOST_EVENTS),
        tasks=[each for group in shown.groups for each in group.tasks][:MOST_TASKS],
        output="" if past else output_of(service, shown.id, task),
        task=task,
        file=file,
        acts=[] if past else acts_on(shown, whole=whole, has_file=file is not None),
        hidden=not whole,
        foreseen=_foreseen(request, service, asker, shown.id, would) if would and not past else None,
        search=would,
        bar=bar,
        tiers=TIERS,
        who=WHO,
        details=details,
    )


def _seen(
    views: Views, id: str, visibility: Visibility
) -> tuple[Workflow, WorkflowWhy, tuple[Event | ClusterEvent, ...]]:
    """Returns the workflow, its reasons, and its events."""
    shown = views.workflow_queries.workflow(id, visibility)
    if isinstance(views, Then):
        views.bring([shown.id])
    why = views.workflow_queries.why(shown.id, visibility)
    return shown, why, views.workflow_queries.events(shown.id, visibility=visibility)


def _box(group: TaskGroup) -> Box:
    pods = len({each.name for each in group.tasks})
    line = f"{pods} {'pod' if pods == 1 else 'pods'}" if pods else ""
    return Box(group.name, kind_of(group.status), group.status, line, tuple(group.upstream))


def details(reason: Reason) -> list[str]:
    """Returns details of a reason: users of the missing resource, and the closest domains."""
    kind = str(reason.resource).rpartition("/")[2]
    found = []
    for part in Part:
        pools = [(each.name, each.amount) for each in reason.concerned if each.part is part]
        if pools:
            found.append(part_line(part, pools, kind))
    for room in reason.domains:
        found.append(domain_line(room.domain, room.have, reason.need, room.missing, room.closed, room.spoken))
    return found


def _foreseen(request: Asked, service: Service, asker: Asking, id: str, search: str) -> WorkflowChanges | str:
    """Returns a sentence if there is no answer in time."""
    try:
        others, leaving = search == "all", leaving_of(request)
        return service.change_queries.would_start(id, asker.identity, others=others, depth=1, leaving=leaving)
    except Unavailable as error:
        return error.message


def _file(service: Service, id: str, *, whole: bool) -> str | None:
    try:
        text = service.workflow_queries.spec(id).text
    except NotFound:
        return None
    return text if whole else masked(text)


# ---------------------------------------------------------------- output


def output_of(service: Service, id: str, task: str) -> str:
    """Returns the last lines; "" if there are none."""
    try:
        attempts = service.workflow_queries.attempts(id, task=task or None)
    except NotFound:
        return ""
    request = logs.LogRequest(id, task or None, last_lines=LAST_LINES)
    data = b""
    for part in logs.Follower(service, request, attempts).written():
        data = (data + part)[-LARGEST_OUTPUT:]
    shown = data.decode(errors="replace").splitlines(keepends=True)[-LAST_LINES:]
    return printable("".join(shown))


@router.get("/page/output/{id}", dependencies=_READ)
def follow_output(service: Serving, stays: Staying, id: str, task: Annotated[str, Query()] = "") -> Response:
    """Streams the same and later output until the tasks finish or the user loses permission to read it."""
    wanted = logs.LogRequest(id, task or None, last_lines=LAST_LINES, follow=True)
    return StreamingResponse(logs.stream(service, wanted, stays), media_type="text/plain; charset=utf-8")
