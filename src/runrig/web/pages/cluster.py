"""A pool, and a node."""

from fastapi import APIRouter, Response

from runrig.api.permissions import Asking, Seeing, named, needs
from runrig.api.routing import Route, Serving
from runrig.api.shown.nodes import conditions
from runrig.api.v1.answers import pools as as_pools
from runrig.api.v1.answers.workflows import entry
from runrig.domain.access import Permission
from runrig.domain.pools import PoolState
from runrig.domain.quantities import format_quantity
from runrig.ports.store import WorkflowQuery
from runrig.service.queries.history import HistoryQuery
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.web.drawings import colours
from runrig.web.pages import edits
from runrig.web.pages.parts import Asked, Explaining
from runrig.web.rendering import html
from runrig.web.tree import rows_of
from runrig.web.waiting import Card
from runrig.wire import v1

router = APIRouter(route_class=Route, include_in_schema=False)

CHANGES = 20
RUNNING = 50


@router.get("/pool/{name}", dependencies=[needs(Permission.READ_POOL, named("name"))])
def pool(request: Asked, service: Serving, asker: Asking, reasons: Explaining, name: str) -> Response:
    visibility = asker.visibility
    view = service.queries.pool(name, visibility)
    shown = as_pools.pool(view, service.backend_name)
    queued = {each.pool: each.gangs for each in service.boards.board(visibility).queued}
    tree = rows_of(service.queries.quota_tree(visibility), queued)
    rows = [row for row in tree if row.kind == "pool" and (row.name == name or row.name in shown.subpools)]
    why = reasons.of(name, visibility)
    history = service.history.changes(name, HistoryQuery(limit=CHANGES), visibility)
    return html(
        request,
        "pool.html",
        it=shown,
        rows=rows,
        colours=colours([row.name for row in tree if row.kind == "pool"] or [name]),
        cards=[Card(name, held) for held in why.held] if why else [],
        waiting=queued.get(name, 0),
        unasked=why.unasked if why else 0,
        running=_listed(service, visibility, name, "RUNNING"),
        pending=_listed(service, visibility, name, "PENDING"),
        most=RUNNING,
        changes=as_pools.changes(history),
        acts=edits.acts_on(view, asker),
        slider=edits.slider_of(view)
        if view.pool.state is PoolState.ACTIVE and edits.may_promise(asker, name)
        else None,
    )


def _listed(service: Service, visibility: Visibility, pool: str, status: str) -> list[v1.WorkflowEntry]:
    found, _ = service.workflow_queries.workflows(
        WorkflowQuery(pools=(pool,), statuses=(status,), limit=RUNNING), visibility
    )
    now = service.workflow_queries.now()
    return [entry(each, now) for each in found]


@router.get("/node/{name}", dependencies=[needs(Permission.READ_CLUSTER)])
def node(request: Asked, service: Serving, visibility: Seeing, name: str) -> Response:
    view = service.queries.node(name, visibility)
    amounts = [
        (resource, format_quantity(resource, amount), format_quantity(resource, view.free.get(resource, 0)))
        for resource, amount in sorted(view.node.resources.items())
    ]
    return html(request, "node.html", it=view, conditions=conditions(view), amounts=amounts)
