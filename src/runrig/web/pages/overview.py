"""The overview: numbers, the quota tree, the map, what happened lately, and why what waits does."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Response

from runrig.api.permissions import Asker, Asking, Seeing, needs
from runrig.api.routing import Route, Serving
from runrig.api.v1.answers.events import cluster_event
from runrig.domain.access import Permission
from runrig.domain.plan import MoveGroup, MoveTask, PutNode, Queue, Release, RestartTask, RetryTask
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.web.domains import MapView, domains_of
from runrig.web.drawings import colours
from runrig.web.folding import Line, folded
from runrig.web.pages.parts import Asked, Explaining
from runrig.web.rendering import html
from runrig.web.tree import figures_of, rows_of

router = APIRouter(route_class=Route, include_in_schema=False)

LATELY = 14
"""Events on the overview."""
LOOKED_BACK = 400
"""Revisions in which they are looked for."""
MOST_POOLS = 6
"""Pools of which the overview says why something waits: those where most does."""
MOST_CARDS = 8
MOST_WAITING = 50
"""Pools of which the page of what waits says why, unless one is chosen: those where most does."""
_SMALL = (MoveTask, MoveGroup, RetryTask, RestartTask, Queue, Release, PutNode)
"""What the overview does not tell: the page of the workflow does."""


@router.get("/", dependencies=[needs(Permission.LIST_POOLS)])
def overview(request: Asked, service: Serving, asker: Asking, reasons: Explaining) -> Response:
    visibility = asker.visibility
    board = service.boards.board(visibility)
    tree = service.queries.quota_tree(visibility)
    queued = {each.pool: each.gangs for each in board.queued}
    rows = rows_of(tree, queued)
    waiting = sorted((pool for pool in queued if pool), key=lambda pool: (-queued[pool], pool))
    cards = sorted(
        reasons.cards(waiting[:MOST_POOLS], visibility), key=lambda card: (-card.held.gpus, card.pool, card.law)
    )
    return html(
        request,
        "overview.html",
        figures=figures_of(board),
        rows=rows,
        colours=colours(row.name for row in rows if row.kind == "pool"),
        view=MapView(levels=board.levels, rows=domains_of(board)),
        overpromised=[f"{amount} of {key}" for key, amount in sorted(tree.overpromised.items())],
        lately=lately(service, visibility),
        cards=cards[:MOST_CARDS],
        more=len(waiting) > MOST_POOLS or len(cards) > MOST_CARDS,
        others=queued.get("", 0),
        first=None if board.gangs or board.queued else _first_pool(service, asker),
    )


def _first_pool(service: Service, asker: Asker) -> str:
    """The pool for a first workflow; "" if there is none that takes it."""
    pools = asker.submits_to()
    return service.access.profile(asker.identity.user).default_of(pools) or (pools or [""])[0]


def lately(service: Service, visibility: Visibility) -> list[Line]:
    """The latest events that are seen, newest first."""
    newest = service.feed.newest()
    page = service.feed.page(max(0, newest - LOOKED_BACK), visibility, most=20 * LOOKED_BACK)
    told = [each for each in page.events if not isinstance(each.event.action, _SMALL)]
    return folded([cluster_event(each) for each in told[-LATELY:]][::-1])


def colours_of(service: Service, visibility: Visibility) -> Mapping[str, str]:
    """Gives a colour to each pool that the asker sees; a pool has the same one on every page."""
    nodes = service.queries.quota_tree(visibility).nodes
    return colours(view.row.name for view in nodes if view.row.kind == "pool")


@router.get("/waiting", dependencies=[needs(Permission.LIST_POOLS)])
def waiting_page(
    request: Asked,
    service: Serving,
    visibility: Seeing,
    reasons: Explaining,
    pool: Annotated[str, Query()] = "",
    law: Annotated[str, Query()] = "",
) -> Response:
    queued = {each.pool: each for each in service.boards.board(visibility).queued}
    pools = sorted(name for name in queued if name)
    most = sorted((name for name in pools if pool in ("", name)), key=lambda name: (-queued[name].gangs, name))
    cards = reasons.cards(most[:MOST_WAITING], visibility)
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
        colours=colours_of(service, visibility),
        gangs=sum(each.gangs for each in queued.values()),
        gpus=sum(each.gpus for each in queued.values()),
        others=queued[""].gangs if "" in queued else 0,
    )
