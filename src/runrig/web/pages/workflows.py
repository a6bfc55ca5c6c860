"""The list of workflows, filtered by its address like `runrig workflow list`, except that a pool includes its subpools."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response

from runrig.api.permissions import Asking, needs
from runrig.api.routing import Route, Serving
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.workflow_status import WorkflowStatus
from runrig.ports.store import WorkflowQuery
from runrig.web.pages.parts import Asked
from runrig.web.pages.past import At, looking
from runrig.web.rendering import html

router = APIRouter(route_class=Route, include_in_schema=False)

PAGE = 50
LARGEST = 1_000_000
_STATES = ("", *(each.value for each in WorkflowStatus))
_PRIORITIES = ("", *(each.value for each in Priority))


@router.get("/workflows", dependencies=[needs(Permission.LIST_POOLS)])
def workflows(
    request: Asked,
    service: Serving,
    asker: Asking,
    name: Annotated[str, Query(max_length=200)] = "",
    pool: Annotated[str, Query()] = "",
    user: Annotated[str, Query()] = "",
    status: Annotated[str, Query()] = "",
    priority: Annotated[str, Query()] = "",
    page: Annotated[int, Query(ge=1, le=LARGEST)] = 1,
    at: At = "",
) -> Response:
    if status not in _STATES or priority not in _PRIORITIES:
        raise InvalidInput.one("choose the status and the priority from the lists", "status")
    visibility = asker.visibility
    query = WorkflowQuery(
        users=(user,) if user else (),
        statuses=(status,) if status else (),
        priorities=(priority,) if priority else (),
        name=name or None,
        limit=PAGE,
        offset=(page - 1) * PAGE,
    )
    with looking(request, service, at) as (views, bar):
        pools = views.queries.pools(visibility=visibility)
        names = [view.pool.name for view in pools]
        family = (pool, *(name for name in names if name.startswith(f"{pool}{SUBPOOL_DELIMITER}"))) if pool else ()
        found, more = views.workflow_queries.workflows(replace(query, pools=family), visibility)
    return html(
        request,
        "workflows.html",
        items=found,
        asked={"name": name, "pool": pool, "user": user, "status": status, "priority": priority},
        acts=[("/submit", "Submit")] if asker.submits_to() else [],
        filtered=bool(name or pool or user or status or priority),
        page=page,
        more=more,
        states=_STATES[1:],
        priorities=_PRIORITIES[1:],
        pools=visibility.of(sorted(names)),
        bar=bar,
    )
