"""A pool."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Query, Response

from runrig.domain.access import Permission
from runrig.domain.errors import NotFound
from runrig.domain.pools import BudgetReached, PoolState
from runrig.domain.quantities import counted
from runrig.domain.shown.limits import LimitKind
from runrig.domain.shown.pools import Pool
from runrig.domain.shown.why import WaitingPlace
from runrig.domain.spans import format_duration
from runrig.http.permissions import Asking, named, needs
from runrig.http.routing import Asked, Serving
from runrig.ports.store import WorkflowQuery
from runrig.service.past.past import Then
from runrig.service.queries.resource_queries import PoolView
from runrig.service.queries.visibility import Visibility
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.web.over_time import drawn, users_of
from runrig.web.pages import edits
from runrig.web.pages.parts import Explaining, colours_of
from runrig.web.pages.past import At, Views, looking
from runrig.web.rendering import html
from runrig.web.routes import router
from runrig.web.tree import rows_of
from runrig.web.waiting import Reasons, Whys, why_cards, whys_of

CHANGES = 20
RUNNING = 50
PLACES = 20

Over = Annotated[str, Query(max_length=10, description="1h, 24h, 7d or 30d")]


@router.get("/pool/{name}", dependencies=[needs(Permission.READ_POOL, named("name"))])
def pool(
    request: Asked,
    service: Serving,
    asker: Asking,
    reasons: Explaining,
    name: str,
    over: Over = "",
    used: Over = "",
    at: At = "",
) -> Response:
    with looking(request, service, at) as (views, bar):
        view = views.queries.pool(name, asker.visibility)
        shown = _pool(service, views, view, asker.visibility, reasons)
        now = views.now() if isinstance(views, Then) else views.workflow_queries.now()
    acts, slider = ([], None) if at else (edits.acts_on(view, asker), _slider(view, asker))
    chart = drawn(service, name, over, now, asker.visibility)
    users = users_of(service, name, used, now, asker.visibility)
    return html(request, "pool.html", bar=bar, acts=acts, slider=slider, chart=chart, **users, **shown)


def _slider(view: PoolView, asker: Asker) -> dict[str, Any] | None:
    if view.pool.state is not PoolState.ACTIVE or not edits.may_promise(asker, view.pool.name):
        return None
    return edits.slider_of(view)


def _pool(service: Service, views: Views, view: PoolView, visibility: Visibility, reasons: Reasons) -> dict[str, Any]:
    name = view.pool.name
    shown = view.shown(views.backend_name)
    board = views.boards.board(visibility)
    tree = rows_of(views.queries.quota_tree(visibility), {pool: each.gangs for pool, each in board.queued.items()})
    rows = [row for row in tree if row.kind == "pool" and (row.name == name or row.name in shown.subpools)]
    family = [name, *shown.subpools]
    running = WorkflowQuery(pools=tuple(family), statuses=("RUNNING",), limit=RUNNING)
    whys = whys_of(views, reasons, family, visibility)
    before = (views.moment.revision + 1, 0) if isinstance(views, Then) else None
    changes, _ = views.history.changes(name, visibility, before=before, limit=CHANGES)
    return {
        "it": shown,
        "limits": [*limits_of(shown), *budget_of(None if isinstance(views, Then) else service, shown, visibility)],
        "rows": rows,
        "colours": colours_of(service, [row.name for row in tree if row.kind == "pool"] or [name], visibility),
        "cards": sorted(why_cards(whys), key=lambda card: (-card.held.gangs, card.pool, card.law)),
        "waiting": sum(each.gangs for pool, each in board.queued.items() if pool in family),
        "asked": sum(each.gpus for pool, each in board.queued.items() if pool in family),
        "held": sum(sum(each.gangs for each in why.held) + why.unasked - why.gangs for why, _ in whys),
        "unasked": sum(why.unasked for why, _ in whys),
        "running": views.workflow_queries.workflows(running, visibility)[0],
        "places": _places(views, visibility, whys),
        "most": RUNNING,
        "changes": changes,
    }


def limits_of(shown: Pool) -> Iterator[str]:
    if shown.max_run_time_s is not None:
        yield f"runs end after at most {format_duration(shown.max_run_time_s)}"
    if shown.default_run_time_s is not None:
        yield f"{format_duration(shown.default_run_time_s)} if a workflow sets no limit"
    if shown.gpus_per_workflow is not None:
        yield f"at most {counted(shown.gpus_per_workflow, 'GPU')} in one workflow"
    if shown.user_waiting is not None:
        yield f"at most {counted(shown.user_waiting, 'waiting workflow')} of one user"


def budget_of(service: Service | None, shown: Pool, visibility: Visibility) -> Iterator[str]:
    """Yields ``412 of 1,000 GPU-hours used this month, 588 left; renews on 2026-12-01``. *service* None: at an earlier time."""
    if shown.budget is None:
        return
    then = "only LOW work starts" if shown.budget_reached is BudgetReached.BORROW else "nothing new starts"
    name = shown.parent or shown.name
    limits = () if service is None else service.limit_queries.limits(visibility, pools=(name,))
    found = [each for each in limits if each.limit is LimitKind.BUDGET and each.used is not None]
    if not found:
        yield f"at most {counted(shown.budget, 'GPU-hour')} a month, then {then}"
    for each in found:
        held, left = each.used or 0, max(0, each.most - (each.used or 0))
        renews = f"renews on {each.renews:%Y-%m-%d} UTC"
        left_in_words = f"{left:,} left" if left else f"so {then}"
        yield f"{held:,} of {counted(each.most, 'GPU-hour')} used this month, {left_in_words}; {renews}"


def _places(views: Views, visibility: Visibility, whys: Whys) -> list[tuple[int, str, WaitingPlace, str]]:
    """Returns the front of each queue: place, pool, what waits there, and who submitted it; "" if that was just deleted."""
    found = [(number, why.pool, place) for why, _ in whys for number, place in enumerate(why.places, 1)]
    front = sorted(found, key=lambda each: each[:2])[:PLACES]
    return [(*each, _submitter(views, each[2].gang.partition("/")[0], visibility)) for each in front]


def _submitter(views: Views, workflow: str, visibility: Visibility) -> str:
    try:
        return views.workflow_queries.head(workflow, visibility).submitted_by
    except NotFound:
        return ""
