"""The columns of the list of workflows, which a reader chooses; a cookie keeps the choice."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from runrig.domain.access import Permission
from runrig.http.permissions import needs
from runrig.web.asking import Filled
from runrig.web.forms import Fields
from runrig.web.rendering import keep_cookie
from runrig.web.routes import form

COLUMNS: Mapping[str, str] = {
    "status": "Status",
    "priority": "Priority",
    "pool": "Pool",
    "by": "By",
    "submitted": "Submitted (UTC)",
    "ended": "Ended (UTC)",
    "gpus": "GPUs",
    "waited": "Waited",
    "ran": "Ran",
    "labels": "Labels",
    "place": "Node, reason or cause",
}
"""In their order. The name of the workflow is always there."""
_USUAL = frozenset(COLUMNS) - {"ended", "labels"}
_COOKIE = "runrig-columns"
_KEPT_S = 365 * 86_400


def chosen(request: Request) -> frozenset[str] | None:
    """Returns None if the reader has not chosen any."""
    kept = request.cookies.get(_COOKIE)
    return None if kept is None else frozenset(kept.split(".")) & frozenset(COLUMNS)


def of(request: Request) -> list[str]:
    """In their order."""
    found = chosen(request)
    return [each for each in COLUMNS if each in (_USUAL if found is None else found)]


@form("/workflows/columns", dependencies=[needs(Permission.LIST_POOLS)])
async def columns(it: Filled, q: Annotated[str, Query()] = "", sort: Annotated[str, Query()] = "") -> Response:
    kept = {"q": q, "sort": sort}
    draw = partial(it.shown, "columns.html", columns=COLUMNS, shown_now=of(it.request), kept=kept)
    found = await it.answered(draw, lambda: None, f"/workflows?{urlencode(kept)}")
    if found.status_code == 303:
        _keep(it.request, found, it.fields)
    return found


def _keep(request: Request, answer: Response, fields: Fields) -> None:
    """Keeps the choice, or forgets it if it is the usual one."""
    now = [each for each in COLUMNS if each in fields]
    keep_cookie(request, answer, _COOKIE, ".".join(now), 0 if {*now} == _USUAL else _KEPT_S, "/workflows")
