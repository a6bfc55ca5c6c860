"""The map of the cluster. Its address determines what it shows."""

from typing import Annotated, Literal

from fastapi import Query, Response

from runrig.domain.access import Permission
from runrig.domain.errors import NotFound
from runrig.domain.shown.topology import GangsThatFit
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import Asked, Serving
from runrig.service.queries.board import Board
from runrig.service.queries.topology import MapQuery, parse_size
from runrig.service.queries.visibility import Visibility
from runrig.web.domains import MapView, Path, domains_of, fits_of, outlined, path_named, places_in
from runrig.web.pages.overview import colours_in
from runrig.web.pages.past import At, Views, looking
from runrig.web.refreshing import shared
from runrig.web.rendering import html
from runrig.web.routes import router
from runrig.web.tree import figures_of

MOST_ROWS = 300
"""Domains in the table, if its finest levels have more."""

By = Literal["pool", "priority", "load", "free"]


@router.get("/map", dependencies=[needs(Permission.READ_CLUSTER)])
@shared
def map_page(
    request: Asked,
    service: Serving,
    visibility: Seeing,
    by: Annotated[By, Query(description="Meaning of the colours")] = "pool",
    within: Annotated[str, Query(alias="in", max_length=1_000, description="Only this domain, such as z1/s8")] = "",
    gang: Annotated[str, Query(max_length=300, description="Workflow or gang to highlight")] = "",
    size: Annotated[
        str, Query(max_length=40, description="Outline the domains where a gang of this size fits, such as 8x8")
    ] = "",
    table: Annotated[Literal["", "1"], Query(description="1: show only a table")] = "",
    at: At = "",
) -> Response:
    with looking(request, service, at) as (views, bar):
        board = views.boards.board(visibility)
        fits = _fits(views, board, size, visibility) if size.strip() else {}
        shades = colours_in(service, views, visibility)
    path = _path(board, within)
    rows = domains_of(board, path, 2, gang, fits or None)
    if table:
        more = (domains_of(board, path, depth, gang, fits or None) for depth in range(len(board.levels), 2, -1))
        rows = next((each for each in more if len(each) <= MOST_ROWS), rows)
    view = MapView(
        board.levels,
        rows,
        by,
        path,
        gang,
        size.strip(),
        bool(table),
        places_in(board, path),
        outlined(board, fits),
        fits.get(path),
    )
    return html(
        request,
        "map.html",
        figures=figures_of(board),
        view=view,
        colours=shades,
        bar=bar,
    )


def _path(board: Board, text: str) -> Path:
    found = path_named(board, text) if text else ()
    if found is None:
        raise NotFound(f"domain {text!r:.80} is not on the map. Its nodes were removed or relabelled")
    return found


def _fits(views: Views, board: Board, size: str, visibility: Visibility) -> dict[Path, GangsThatFit]:
    """By domain; () means all nodes. Ignores pools with keys other than the map's."""
    maps = views.topology.maps(MapQuery(size=parse_size(size), holders=0), visibility).maps
    found = [each.all for each in maps if tuple(key.key for key in each.keys) == board.levels]
    return fits_of(found[0]) if found else {}
