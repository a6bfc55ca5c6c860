"""A pool."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response

from runrig.api.permissions import Asking, named, needs
from runrig.api.routing import Route, Serving
from runrig.domain.access import Permission
from runrig.domain.pools import PoolState
from runrig.domain.shown.workflows import WorkflowEntry
from runrig.ports.store import WorkflowQuery
from runrig.service.queries.history import HistoryQuery
from runrig.service.queries.resource_queries import PoolView
from runrig.service.queries.visibility import Visibility
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.web.pages import edits
from runrig.web.pages.parts import Asked, Explaining, colours_of
from runrig.web.pages.past import At, Views, looking, reasons_of
from runrig.web.rendering import html
from runrig.web.tree import rows_of
from runrig.web.waiting import Explains

router = APIRouter(route_class=Route, include_in_schema=False)

CHANGES = 20
RUNNING = 50


@router.get("/pool/{name}", dependencies=[needs(Permission.READ_POOL, named("name"))])
def pool(request: Asked, service: Serving, asker: Asking, reasons: Explaining, name: str, at: At = "") -> Response:
    with looking(request, service, at) as (views, bar):
        view = views.queries.pool(name, asker.visibility)
        shown = _pool(service, views, view, asker.visibility, reasons_of(views, reasons))
    acts, slider = ([], None) if at else (edits.acts_on(view, asker), _slider(view, asker))
    return html(request, "pool.html", bar=bar, acts=acts, slider=slider, **shown)


def _slider(view: PoolView, asker: Asker) -> dict[str, Any] | None:
    if view.pool.state is not PoolState.ACTIVE or not edits.may_promise(asker, view.pool.name):
        return None
    return edits.slider_of(view)


def _pool(service: Service, views: Views, view: PoolView, visibility: Visibility, reasons: Explains) -> dict[str, Any]:
    name = view.pool.name
    shown = view.shown(views.backend_name)
    queued = {each.pool: each.gangs for each in views.boards.board(visibility).queued}
    tree = rows_of(views.queries.quota_tree(visibility), queued)
    rows = [row for row in tree if row.kind == "pool" and (row.name == name or row.name in shown.subpools)]
    family = [name, *shown.subpools]
    cards = reasons.cards(family, visibility)
    why = reasons.of(name, visibility)
    history = views.history.changes(name, HistoryQuery(limit=CHANGES), visibility)
    return {
        "it": shown,
        "rows": rows,
        "colours": colours_of(service, [row.name for row in tree if row.kind == "pool"] or [name], visibility),
        "cards": sorted(cards, key=lambda card: (-card.held.gangs, card.pool, card.law)),
        "waiting": sum(queued.get(each, 0) for each in family),
        "unasked": why.unasked if why else 0,
        "running": _listed(views, visibility, family, "RUNNING"),
        "pending": _listed(views, visibility, family, "PENDING"),
        "most": RUNNING,
        "changes": history.entries,
    }


def _listed(service: Views, visibility: Visibility, pools: Sequence[str], status: str) -> tuple[WorkflowEntry, ...]:
    found, _ = service.workflow_queries.workflows(
        WorkflowQuery(pools=tuple(pools), statuses=(status,), limit=RUNNING), visibility
    )
    return found
