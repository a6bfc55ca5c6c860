"""Routes of the audit trail of pools."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.osmo.answers import history as as_answers
from runrig.api.permissions import Seeing, named, needs
from runrig.api.routing import LONGEST_USER_NAME, Route, Serving, answers
from runrig.api.times import At
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.service.queries.history import HistoryQuery
from runrig.service.queries.visibility import Visibility

router = APIRouter(route_class=Route, tags=["pools"])

LONGEST_PAGE = 1000


@router.get(
    "/api/configs/pool/{name}/history",
    summary="Who changed a pool and its subpools, newest first",
    dependencies=[needs(Permission.READ_POOL, named("name"))],
    responses=answers(wire.PoolHistoryAnswer, 404),
)
def history(
    service: Serving,
    visibility: Seeing,
    name: str,
    since: Annotated[At | None, Query(description="This time is still in it; UTC unless it has a zone")] = None,
    until: Annotated[At | None, Query(description="This time is still in it")] = None,
    by: Annotated[
        str | None,
        Query(description="What this person did, by command or cluster file; runrig: what it did by itself"),
    ] = None,
    pool: Annotated[
        str | None,
        Query(description="Only this subpool, by its short or whole name; the pool's own name: without them"),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 50,
    after: Annotated[
        str | None, Query(pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$", description="`next` of the page before")
    ] = None,
) -> wire.PoolHistoryAnswer:
    query = HistoryQuery(
        subpool=pool,
        by=_person(by),
        since=None if since is None else since.timestamp(),
        until=None if until is None else until.timestamp(),
        after=None if after is None else _place(after),
        limit=limit,
    )
    return as_answers.page(name, service.history.changes(name, query, visibility))


def pool_at(service: Serving, name: str, at: datetime, visibility: Visibility) -> wire.PoolAtAnswer:
    """The answer of `GET /api/configs/pool/{name}?at=`."""
    return as_answers.pool_at(service.history.pool_at(name, at.timestamp(), visibility))


def _place(cursor: str) -> tuple[int, int]:
    revision, _, seq = cursor.partition(".")
    return int(revision), int(seq)


def _person(name: str | None) -> str | None:
    if name is not None and not (name.isprintable() and 0 < len(name) <= LONGEST_USER_NAME):
        raise InvalidInput.one(f"by {name!r:.80} is no user name: 1 to {LONGEST_USER_NAME} printable characters", "by")
    return name
