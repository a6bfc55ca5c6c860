"""One workflow: why it is in its state, its output, how it spent its time, its tasks, code and events."""

import shlex
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from runrig.domain.access import Permission
from runrig.domain.errors import Unavailable
from runrig.domain.natural_order import natural
from runrig.domain.observed import ClusterEvent
from runrig.domain.quantities import counted
from runrig.domain.reason_lines import WHO, domain_line, part_line
from runrig.domain.reasons import Part, Reason
from runrig.domain.records import Event
from runrig.domain.shown.changes import WorkflowChanges
from runrig.domain.shown.why import WorkflowWhy
from runrig.domain.shown.workflows import TaskGroup, Workflow
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import WorkflowSpec
from runrig.http.leaving import leaving_of
from runrig.http.permissions import Asking, needs
from runrig.http.permissions import workflow as of_workflow
from runrig.http.routing import Asked, Serving
from runrig.http.staying import UNBUFFERED, Staying
from runrig.service import log_stream as logs
from runrig.service.past.past import Then
from runrig.service.queries.events import workflow_events
from runrig.service.queries.record import Record
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.spec.masked import masked
from runrig.web.attempts import attempts_of, killed
from runrig.web.drawings import Box, graph
from runrig.web.folding import folded
from runrig.web.gpu_use import uses
from runrig.web.output import MOST_ATTEMPTS, Output, Wanted, lines_each, output_of, request_of
from runrig.web.pages.acts import acts_on
from runrig.web.pages.elements import RANK
from runrig.web.pages.past import At, Views, looking
from runrig.web.refreshing import is_refresh
from runrig.web.rendering import html, kind_of
from runrig.web.routes import router

MOST_LOGGED = 1_000
"""Events of an array that are read, the latest: each element has its own."""
MOST_EVENTS = 200
"""Events that are shown."""
MOST_LANES = 50
"""The latest attempts."""
MOST_TASKS = 50
"""Tasks on a page of their list."""
MOST_LISTED = 100
"""Tasks in the list from which one is chosen; of more, the name is typed."""
MOST_TABS = 6
"""Tasks with a tab of their own; more are in a list."""
MOST_COMMANDS = 5
MOST_SKIPPED = 1_000_000
LONGEST_SEARCH = 200
TIERS = {
    "submission": "Submitted",
    "order": "Order",
    "quota": "Quota",
    "shape": "Nodes",
    "preemption": "Preempt",
    "waiting_for": "Waiting for",
}
LATE = (WorkflowStatus.FAILED_EXEC_TIMEOUT, WorkflowStatus.FAILED_QUEUE_TIMEOUT)
_READ = [needs(Permission.READ_WORKFLOW, of_workflow("id"))]

Search = Literal["", "own", "all"]
TaskName = Annotated[str, Query(description="Task whose output to show. Default: all tasks")]
Number = Annotated[
    str, Query(pattern=r"^[0-9]{0,6}$", description="Attempt whose output to show, from 1. Default: all")
]


@router.get("/workflow/{id}", dependencies=_READ)
def workflow(
    request: Asked,
    service: Serving,
    asker: Asking,
    id: str,
    would: Annotated[
        Search, Query(description="Find changes that would start it: by the owner (own), or by anyone (all)")
    ] = "",
    task: TaskName = "",
    attempt: Number = "",
    find: Annotated[str, Query(max_length=LONGEST_SEARCH, description="Only lines of output with this text")] = "",
    skip: Annotated[int, Query(ge=0, le=MOST_SKIPPED, description="Lines at the end of the output to leave out")] = 0,
    page: Annotated[int, Query(ge=1, le=MOST_SKIPPED, description="Page of the list of tasks")] = 1,
    element: Annotated[str, Query(max_length=200, description="Why only this element of an array waits")] = "",
    at: At = "",
) -> Response:
    with looking(request, service, at) as (views, bar):
        record, shown, why, found = _seen(views, id, element, asker.visibility)
        gpus = uses(shown, views.workflow_queries.gpu_use(shown), views.workflow_queries.gpu_history(shown))
        now = views.workflow_queries.now()
    past = isinstance(views, Then)
    whole = asker.may(Permission.CHANGE_WORKFLOW, asker.workflow(shown.id))
    wanted = Wanted(task, _attempt(attempt), find, skip)
    reads = not past and not is_refresh(request)  # A refresh leaves the output alone.
    return html(
        request,
        "workflow.html",
        **_state(shown, why),
        **_times(found, now, whole_log=record.count == len(record.log)),
        **_events(found, record),
        **_tasks(shown, page),
        **_file(record, whole=whole),
        gpus=gpus,
        output=output_of(service, shown, wanted, record) if reads else Output(),
        wanted=wanted,
        acts=[] if past else acts_on(shown, whole=whole, has_file=record.spec is not None),
        changes=whole and not past,
        foreseen=_foreseen(request, service, asker, shown.id, would) if would and not past else None,
        search=would,
        bar=bar,
    )


def _seen(
    views: Views, id: str, element: str, visibility: Visibility
) -> tuple[Record, Workflow, WorkflowWhy, tuple[Event | ClusterEvent, ...]]:
    queries = views.workflow_queries
    record = queries.record(id, visibility, MOST_LOGGED)
    shown = queries.workflow(id, visibility, record)
    if isinstance(views, Then):
        views.bring([shown.id])
    why = queries.why(shown.id, visibility, element or None, record)
    return record, shown, why, queries.events(shown.id, visibility=visibility, record=record)


def _state(shown: Workflow, why: WorkflowWhy) -> dict[str, Any]:
    return {
        "it": shown,
        "why": why,
        "waits": any(group.position is not None for group in why.groups),
        # The elements of an array do not depend on each other.
        "graph": None if shown.array else graph([_box(group) for group in shown.groups]),
        "preempted": sorted((each for group in why.groups for each in group.preempted), key=lambda each: each.at),
        "failed": shown.status == "FAILED" and shown.cause is not None,
        "late": shown.status in LATE and shown.message,
        "failure": _failure(shown),
        "by_signal": shown.cause is not None and killed(shown.cause),
        "tiers": TIERS,
        "who": WHO,
        "details": details,
    }


def _times(found: Sequence[Event | ClusterEvent], now: float, *, whole_log: bool) -> dict[str, Any]:
    every = attempts_of(each for each in found if isinstance(each, Event))
    attempts = every[-MOST_LANES:]
    return {
        "attempts": attempts,
        "left_out": len(every) > MOST_LANES or not whole_log,
        "begin": min((each.queued for each in attempts), default=now),
        "end": max([each.end or now for each in attempts], default=now),
        "now": now,
    }


def _events(found: Sequence[Event | ClusterEvent], record: Record) -> dict[str, Any]:
    count = len(found) + record.count - len(record.log)
    shown = workflow_events(found)[-MOST_EVENTS:]
    return {"events": folded(shown[::-1]), "count": count, "earlier": count - len(shown)}


def _tasks(shown: Workflow, page: int) -> dict[str, Any]:
    """Of many tasks, what failed is first, then what runs."""
    rows = [(group.name, each) for group in shown.groups for each in group.tasks]
    if len(rows) > MOST_TASKS:
        rows.sort(key=lambda row: RANK[kind_of(row[1].status)])
    first = (page - 1) * MOST_TASKS
    latest = {each.name: each for _, each in rows}
    return {
        "nodes": sorted({each.node for each in latest.values() if each.node}, key=natural),
        "gpu_count": sum(len(each.gpus) for each in latest.values() if each.node),
        "tasks": rows[first : first + MOST_TASKS],
        "page": page,
        "pages": -(-len(rows) // MOST_TASKS),
        "pods": sorted(latest, key=natural),
        "numbers": sorted({each.attempt + 1 for _, each in rows}),
        "most_tabs": MOST_TABS,
        "most_listed": MOST_LISTED,
    }


def _file(record: Record, *, whole: bool) -> dict[str, Any]:
    spec = record.spec
    text = None if spec is None else spec.text if whole else masked(spec.text)
    return {"file": text, "commands": [] if spec is None else _commands(spec.spec), "hidden": not whole}


def _attempt(number: str) -> int | None:
    return int(number) - 1 if number.strip("0") else None


def _failure(shown: Workflow) -> dict[str, Any] | None:
    """Returns where the task that failed first ran, for how long, and how many others then ended, or never started."""
    if shown.cause is None:
        return None
    tasks = [each for group in shown.groups for each in group.tasks]
    first = next((each for each in tasks if (each.name, each.attempt) == (shown.cause.task, shown.cause.attempt)), None)
    if first is None or first.end_time is None:
        return None
    later = [each for each in tasks if each.end_time and each is not first and each.end_time >= first.end_time]
    return {
        "node": first.node,
        "ran_s": (first.end_time - first.start_time).total_seconds() if first.start_time else None,
        "others": len({each.name for each in later if each.start_time and each.status != "COMPLETED"}),
        "unstarted": len({each.name for each in tasks if each.end_time and not each.start_time}),
    }


def _commands(spec: WorkflowSpec) -> list[tuple[str, str, str]]:
    """Returns (task, image, command) of the first tasks. Tasks of an array differ only in their index, so only one is shown."""
    tasks = [task for group in spec.groups[: 1 if spec.array else MOST_COMMANDS] for task in group.tasks]
    return [(each.name, each.image, shlex.join((*each.command, *each.args))) for each in tasks[:MOST_COMMANDS]]


def _box(group: TaskGroup) -> Box:
    pods = len({each.name for each in group.tasks})
    line = counted(pods, "pod") if pods else ""
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


# ---------------------------------------------------------------- output


@router.get("/page/output/{id}", dependencies=_READ)
def follow_output(service: Serving, stays: Staying, id: str, task: TaskName = "", attempt: Number = "") -> Response:
    """Streams the last lines and later ones, as records, until the tasks finish or the user loses permission to read them."""
    wanted = Wanted(task, _attempt(attempt))
    attempts = logs.attempts_of(service, request_of(id, wanted))
    request = request_of(id, wanted, lines_each(min(len(attempts), MOST_ATTEMPTS)), follow=True)
    return StreamingResponse(
        logs.stream(service, request, stays), media_type="application/x-ndjson", headers=UNBUFFERED
    )


@router.get("/workflow/{id}/output.txt", dependencies=_READ)
def download_output(service: Serving, stays: Staying, id: str, task: TaskName = "", attempt: Number = "") -> Response:
    """All output up to now, as a file."""
    sent = logs.stream(service, request_of(id, Wanted(task, _attempt(attempt))), stays)
    headers = {"Content-Disposition": f'attachment; filename="{service.workflow_queries.head(id).id}.txt"'}
    return StreamingResponse(sent, media_type="text/plain; charset=utf-8", headers=headers)
