"""Tasks of all workflows, as the osmo client lists and sums them."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query

from runrig.api.osmo import models
from runrig.api.osmo.workflows import LONGEST_PAGE, PriorityName
from runrig.api.routes import Router
from runrig.api.times import At
from runrig.domain.access import Permission
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE
from runrig.domain.workflows import Status
from runrig.http.permissions import Seeing, needs, workflow
from runrig.http.routing import Base, NamedUser, Serving
from runrig.osmo.shape import Links
from runrig.osmo.workflows import links
from runrig.ports.store import TaskQuery, WorkflowQuery
from runrig.service.queries.task_queries import Amounts, ListedTask
from runrig.wire.base import utc

router = Router("workflows")

_STATUSES = frozenset(status.value for status in Status)
_NEVER = ("SUBMITTING", "PROCESSING")
"""Osmo statuses that a task in runrig never has."""
GI = 2**30
if TYPE_CHECKING:
    StatusName = str
else:
    StatusName = Literal[tuple(sorted(_STATUSES | set(_NEVER)))]


@router("GET /api/workflow/{id}/task/{task}", needs(Permission.READ_WORKFLOW, workflow("id")))
def query_task(service: Serving, visibility: Seeing, base: Base, id: str, task: str) -> models.TaskEntry:
    """Show the last attempt of a task (of its first pod)."""
    queries = service.workflow_queries
    found = service.task_queries.task(queries.named(id, task)[0], queries.head(id, visibility))
    return _listed(found, links(base), queries.now())


def _listed(found: ListedTask, links: Links, now: float) -> models.TaskEntry:
    task, workflow = found.task, found.workflow
    ran = None if task.start_time is None else round(max(0.0, (task.end_time or now) - task.start_time), 6)
    output = links.output(workflow.id, task.name, task.retry_id)
    return models.TaskEntry(
        user=workflow.submitted_by,
        workflow_id=workflow.id,
        workflow_uuid=workflow.uuid,
        task_name=task.name,
        retry_id=task.retry_id,
        status=task.status.value,
        pool=workflow.pool,
        priority=workflow.priority.value,
        node=task.node,
        start_time=utc(task.start_time),
        end_time=utc(task.end_time),
        duration=ran,
        overview=links.page(workflow.id),
        logs=output["logs"],
        error_logs=output["error_logs"],
        **_amounts(found.asks),
    )


def _amounts(asks: Amounts) -> dict[str, Any]:
    """Converts to the units of the osmo API: Gi, cores, whole GPUs; integers where possible."""
    return {
        "storage": _in_units(asks.get(STORAGE, 0), GI),
        "cpu": _in_units(asks.get(CPU, 0), 1000),
        "memory": _in_units(asks.get(MEMORY, 0), GI),
        "gpu": asks.get(GPU, 0),
    }


def _in_units(amount: int, unit: int) -> float:
    whole, rest = divmod(amount, unit)
    return amount / unit if rest else whole


@router("GET /api/task", needs(Permission.LIST_POOLS))
def list_tasks(
    service: Serving,
    user: NamedUser,
    visibility: Seeing,
    base: Base,
    workflow_id: Annotated[str | None, Query(description="Part of the workflow's ID")] = None,
    statuses: list[StatusName] = Query(default=[]),  # noqa: B008
    users: Annotated[list[str], Query(description="Submitted by these users. Default: by you")] = [],  # noqa: B006
    all_users: bool = False,
    pools: Annotated[list[str], Query()] = [],  # noqa: B006
    all_pools: bool = False,  # noqa: ARG001 - of the reference client: without `pools` it is all of them
    nodes: Annotated[list[str], Query(description="On these nodes")] = [],  # noqa: B006
    priority: list[PriorityName] = Query(default=[]),  # noqa: B008
    started_after: Annotated[At | None, Query(description="From this time, inclusive")] = None,
    started_before: Annotated[At | None, Query(description="Until this time, exclusive")] = None,
    summary: Annotated[bool, Query(description="Sums by user, pool and priority instead")] = False,
    aggregate_by_workflow: Annotated[bool, Query(description="Sums of each workflow instead")] = False,
    order: Annotated[
        Literal["ASC", "DESC"], Query(description="Order within the page, which always has the newest tasks")
    ] = "ASC",
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 20,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> models.TaskListAnswer | models.TaskSumsAnswer:
    """List tasks of all workflows, or the sum of their requests."""
    sums = summary or aggregate_by_workflow
    wanted = tuple(status for status in statuses if status in _STATUSES)
    if statuses and not wanted:
        return models.TaskSumsAnswer(summaries=[]) if sums else models.TaskListAnswer(tasks=[])
    query = TaskQuery(
        workflows=WorkflowQuery(
            pools=tuple(pools),
            users=() if all_users else tuple(users) or (user,),
            priorities=tuple(priority),
            name=workflow_id,
        ),
        statuses=wanted,
        nodes=tuple(nodes),
        started_after=started_after,
        started_before=started_before,
        limit=limit,
        offset=offset,
    )
    if sums:
        found = service.task_queries.sums(query, by_workflow=aggregate_by_workflow, visibility=visibility)
        return models.TaskSumsAnswer(
            summaries=[
                models.TaskSumEntry(
                    user=each.user,
                    pool=each.pool,
                    priority=each.priority.value,
                    workflow_id=each.workflow,
                    **_amounts(each.asks),
                )
                for each in found
            ]
        )
    now = service.workflow_queries.now()
    entries = [_listed(each, links(base), now) for each in service.task_queries.tasks(query, visibility)]
    return models.TaskListAnswer(tasks=entries if order == "DESC" else entries[::-1])
