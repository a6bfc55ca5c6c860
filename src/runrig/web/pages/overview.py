"""The overview: figures, quota tree, map, latest events, and why workflows are waiting."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query, Response

from runrig.domain.access import Permission
from runrig.domain.plan import MoveGroup, MoveTask, PutNode, Queue, Release, RestartTask, RetryTask
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.quantities import amount_of_flavor
from runrig.domain.shown.workflows import WorkflowEntry
from runrig.domain.workflow_status import WorkflowStatus
from runrig.http.permissions import Asking, Seeing, needs
from runrig.http.routing import Asked, Serving
from runrig.ports.store import WorkflowQuery
from runrig.service.queries.visibility import Visibility
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.web.attempts import said_of
from runrig.web.domains import MapView, domains_of
from runrig.web.folding import Line, folded
from runrig.web.node_cards import cards_of
from runrig.web.over_time import drawn
from runrig.web.pages.parts import Explaining, colours_of
from runrig.web.pages.past import At, Views, looking
from runrig.web.pages.workflows import causes_of
from runrig.web.refreshing import is_refresh, shared
from runrig.web.rendering import html
from runrig.web.routes import router
from runrig.web.tree import figures_of, rows_of
from runrig.web.waiting import Reasons, why_cards, whys_of

LATELY = 14
"""Events on the overview."""
LOOKED_BACK = 400
"""Revisions searched for them."""
MOST_POOLS = 6
"""Number of pools whose reasons the overview shows: those with the most pending work."""
MOST_CARDS = 8
MOST_YOURS, MOST_ENDED = 6, 3
"""Number of the user's workflows that run, that wait, and that ended."""
ENDED = tuple(each.value for each in WorkflowStatus if each.finished)
MOST_WAITING = 50
"""Number of pools whose reasons `/waiting` shows unless one is selected: those with the most pending work."""
_SMALL = (MoveTask, MoveGroup, RetryTask, RestartTask, Queue, Release, PutNode)
"""Kinds of events that only the page of the workflow shows."""


@router.get("/", dependencies=[needs(Permission.LIST_POOLS)])
@shared
def overview(request: Asked, service: Serving, asker: Asking, reasons: Explaining, at: At = "") -> Response:
    with looking(request, service, at) as (views, bar):
        shown = _overview(service, views, asker.visibility, reasons)
    first = None if at or not shown["empty"] else _first_pool(service, asker)
    request.state.personal = first is not None
    yours = None if at or is_refresh(request) else _yours(service, asker)
    acts = [("/apply", "Cluster file")] if asker.may(Permission.CHANGE_CLUSTER) and not at else []
    return html(request, "overview.html", bar=bar, first=first, acts=acts, yours=yours, **shown)


@router.get("/page/yours", dependencies=[needs(Permission.LIST_POOLS)])
def yours(request: Asked, service: Serving, asker: Asking) -> Response:
    """The parts of the overview that are the user's own, for its script."""
    with looking(request, service, ""):
        return html(request, "only_yours.html", yours=_yours(service, asker))


def _yours(service: Service, asker: Asker) -> dict[str, Any]:
    """Returns what runs, what waits, and the last that ended, of the user; and their pool over time."""
    user, queries = asker.identity.user, service.workflow_queries
    found: list[WorkflowEntry] = []
    for statuses, limit in ((("RUNNING",), MOST_YOURS), (("PENDING",), MOST_YOURS), (ENDED, MOST_ENDED)):
        query = WorkflowQuery(users=(user,), statuses=statuses, limit=limit)
        found += queries.workflows(query, asker.visibility)[0]
    items = queries.with_headlines(found, asker.visibility)
    pools, pool = asker.submits_to(), _first_pool(service, asker)
    own = len(pools) == 1 or service.access.profile(user).default_of(pools) is not None
    chart = drawn(service, pool, "24h", queries.now(), asker.visibility) if pool else None
    causes = causes_of(service, items, asker.visibility)
    return {"user": user, "work": items, "causes": causes, "said_of": said_of, "chart": chart, "own": own}


def _overview(service: Service, views: Views, visibility: Visibility, reasons: Reasons) -> dict[str, Any]:
    board = views.boards.board(visibility)
    tree = views.queries.quota_tree(visibility)
    queued = {pool: each.gangs for pool, each in board.queued.items()}
    rows = rows_of(tree, queued)
    pools = {*queued, *views.queries.pools_on_hold(visibility)} - {""}
    waiting = sorted(pools, key=lambda pool: (-queued.get(pool, 0), pool))
    cards = sorted(
        why_cards(whys_of(views, reasons, waiting[:MOST_POOLS], visibility)),
        key=lambda card: (-card.held.gpus, card.pool, card.law),
    )
    return {
        "figures": figures_of(board),
        "rows": rows,
        "colours": colours_of(service, [row.name for row in rows if row.kind == "pool"], visibility),
        "nodes": cards_of(board),
        "view": MapView(levels=board.levels, rows=domains_of(board)),
        "overpromised": [
            amount_of_flavor(key, amount, named=not key.startswith("default/"))
            for key, amount in sorted(tree.overpromised.items())
        ],
        "lately": lately(views, visibility),
        "cards": cards[:MOST_CARDS],
        "more": len(waiting) > MOST_POOLS or len(cards) > MOST_CARDS,
        "others": queued.get("", 0),
        "empty": not (board.gangs or board.queued or _lives(views, visibility)),
    }


def _lives(views: Views, visibility: Visibility) -> bool:
    """Whether there is work outside the queue that uses no GPUs: on hold, or without GPU requests."""
    found, _ = views.workflow_queries.workflows(WorkflowQuery(statuses=("PENDING", "RUNNING"), limit=1), visibility)
    return bool(found)


def _first_pool(service: Service, asker: Asker) -> str:
    """Returns the pool for a first workflow; "" if none accepts it."""
    pools = asker.submits_to()
    return service.access.profile(asker.identity.user).default_of(pools) or (pools or [""])[0]


def lately(views: Views, visibility: Visibility) -> list[Line]:
    """Returns the latest visible events, newest first."""
    events = views.feed.latest(views.stored, LATELY, LOOKED_BACK, visibility, without=_SMALL)
    return folded(events[::-1])


def colours_in(service: Service, views: Views, visibility: Visibility) -> Mapping[str, str]:
    """Returns a colour for each top-level pool in *views*."""
    nodes = views.queries.quota_tree(visibility).nodes
    return colours_of(service, [node.name for node in nodes if node.kind == "pool"], visibility)


@router.get("/waiting", dependencies=[needs(Permission.LIST_POOLS)])
@shared
def waiting_page(
    request: Asked,
    service: Serving,
    visibility: Seeing,
    reasons: Explaining,
    pool: Annotated[str, Query()] = "",
    law: Annotated[str, Query()] = "",
    at: At = "",
) -> Response:
    with looking(request, service, at) as (views, bar):
        queued = views.boards.board(visibility).queued
        names = {*queued, *views.queries.pools_on_hold(visibility)} - {""}
        above = {name: name.partition(SUBPOOL_DELIMITER)[0] for name in names}
        pools = sorted({*above, *above.values()})
        wanted = (name for name, top in above.items() if pool in ("", name, top))
        most = sorted(wanted, key=lambda name: (-queued[name].gangs if name in queued else 0, name))
        cards = why_cards(whys_of(views, reasons, most[:MOST_WAITING], visibility))
        shades = colours_in(service, views, visibility)
    laws = sorted({card.law for card in cards})
    shown = [card for card in cards if law in ("", card.law)]
    shown.sort(key=lambda card: (-card.held.gangs, card.pool, card.law))
    return html(
        request,
        "waiting.html",
        cards=shown,
        pools=pools,
        laws=laws,
        pool=pool,
        law=law,
        more=max(0, len(most) - MOST_WAITING),
        queued=queued,
        colours=shades,
        bar=bar,
        gangs=sum(each.gangs for each in queued.values()),
        gpus=sum(each.gpus for each in queued.values()),
        others=queued[""].gangs if "" in queued else 0,
    )
