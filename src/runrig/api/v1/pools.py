"""Pools, including subpools: each is at `/api/v1/pools/{name}` with its full name."""

from typing import Annotated

from fastapi import Query, Response

from runrig.api.edits import pool_edit
from runrig.api.error_docs import DRAINING, Said
from runrig.api.routes import Router
from runrig.api.times import At
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cursor_of, cut, place_of
from runrig.domain.access import LONGEST_USER_NAME, Permission
from runrig.domain.errors import InvalidInput, NotFound
from runrig.domain.settings import PROMISED
from runrig.domain.shown.history import PoolChangePage, PoolPast
from runrig.domain.shown.pools import Pool, PoolDeleted, PoolPage, PoolPaused
from runrig.domain.shown.why import PoolWhy
from runrig.domain.tags import etag_of
from runrig.http.permissions import Asking, Seeing, Sent, named, needs
from runrig.http.routing import IdempotencyKey, IfMatch, Serving, User, reply
from runrig.service.queries import history
from runrig.service.queries.resource_queries import PoolView
from runrig.service.service import Service
from runrig.spec.quota import share_from_json
from runrig.wire import v1

router = Router("pools")

_READ = needs(Permission.READ_POOL, named("name"))

DryRun = Annotated[bool, Query(description="Validate and preview only")]

_OVER: Said = (
    "the subpools of team would have 101 GPUs (b 40, a 31, d 30), but team has only 100. Give d at most 29, reduce other "
    "subpools, or raise the quota of team",
    {"law": "S1", "pool": "team", "resource": "default/gpu", "asked": 101, "limit": 100, "unallocated": 29},
)


@router("GET /api/v1/pools", needs(Permission.LIST_POOLS), errors=(404,))
def list_pools(
    service: Serving,
    visibility: Seeing,
    name: Annotated[list[str], Query(description="Only these pools and their subpools")] = [],  # noqa: B006
    archived: Annotated[bool, Query(description="Include ARCHIVED pools")] = False,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> PoolPage:
    """List pools with their balances, subpools after their parents."""
    found = sorted(service.queries.pools(names=name, archived=archived, below=True, visibility=visibility), key=_place)
    page, following = cut(found, _place, limit, cursor, str, str)
    return PoolPage(following, tuple(view.shown(service.backend_name) for view in page))


def _place(found: PoolView) -> tuple[str, str]:
    return found.pool.parent or found.pool.name, found.pool.name


@router(
    "POST /api/v1/pools",
    needs(Permission.CHANGE_CLUSTER, Sent("parent", parent=True), of_subpool=Permission.CHANGE_SUBPOOLS),
    creates=Pool,
    tag=True,
    tries=True,
    errors=(404, 409),
    said={400: _OVER},
)
def create_pool(
    service: Serving, user: User, key: IdempotencyKey, body: v1.PoolCreate, dry_run: DryRun = False
) -> Response:
    """Create a pool, or restore an ARCHIVED one.

    With an Idempotency-Key, an identical existing pool is returned as if it had just been created.
    """
    again, kinds = key is not None, service.declarations.kinds()
    if body.parent is None:
        edit = pool_edit(body.name, body, kinds)
        view = service.declarations.create_pool(body.name, edit, user=user, dry_run=dry_run, again=again)
    else:
        _check_subpool(body)
        share = share_from_json(body.quota, kinds)
        view = service.subpools.create(body.parent, body.name, share, user=user, dry_run=dry_run, again=again)
    return _reply(service, view, created=not dry_run)


def _check_subpool(body: v1.PoolCreate) -> None:
    """Raises InvalidInput for settings that a subpool inherits from its parent (rule S5)."""
    others = sorted(body.model_fields_set - {"name", "parent", "quota"})
    if others:
        raise InvalidInput.one(f"a subpool inherits {others[0]} from {body.parent}. Change it there", others[0])


def _reply(service: Service, view: PoolView, *, created: bool = False) -> Response:
    location = f"/api/v1/pools/{view.pool.name}" if created else None
    shown = view.shown(service.backend_name)
    return reply(shown, 201 if created else 200, etag=etag_of(view.pool), location=location)


@router("GET /api/v1/pools/{name}", _READ, shows=Pool, tag=True)
def get_pool(service: Serving, visibility: Seeing, name: str) -> Response:
    """Show a pool with its balances, in any state."""
    return _reply(service, service.queries.pool(name, visibility))


@router(
    "PATCH /api/v1/pools/{name}",
    needs(Permission.CHANGE_POOL, named("name"), guarantees=PROMISED),
    shows=Pool,
    tag=True,
    said={400: _OVER, 409: DRAINING},
)
def update_pool(
    service: Serving,
    user: User,
    asker: Asking,
    expected: IfMatch,
    name: str,
    body: v1.PoolEdit,
    dry_run: DryRun = False,
) -> Response:
    """Update a pool. Running workflows are not affected."""
    asker.check_promise(name, body.model_fields_set)
    edit = pool_edit(name, body, service.declarations.kinds())
    view = service.declarations.update_pool(name, edit, user=user, dry_run=dry_run, expected=expected)
    return _reply(service, view)


@router(
    "POST /api/v1/pools/{name}/close", needs(Permission.CHANGE_POOL, named("name")), shows=Pool, tag=True, errors=(409,)
)
def close_pool(service: Serving, user: User, expected: IfMatch, name: str, body: v1.PoolClose) -> Response:
    """Close a pool and its subpools to submissions. Queued workflows still start."""
    return _reply(service, service.declarations.close_pool(name, user=user, reason=body.reason, expected=expected))


@router(
    "POST /api/v1/pools/{name}/open",
    needs(Permission.CHANGE_POOL, named("name")),
    shows=Pool,
    tag=True,
    errors=(409, 413),
)
def open_pool(service: Serving, user: User, expected: IfMatch, name: str) -> Response:
    """Reopen a closed pool."""
    return _reply(service, service.declarations.open_pool(name, user=user, expected=expected))


@router(
    "POST /api/v1/pools/{name}/pause",
    needs(Permission.CHANGE_POOL, named("name")),
    shows=PoolPaused,
    tag=True,
    errors=(409,),
)
def pause_pool(service: Serving, user: User, expected: IfMatch, name: str, body: v1.PoolPause) -> Response:
    """Start nothing new in a pool and its subpools. Running workflows continue, and other pools can borrow its idle
    quota.

    A pool that is paused stays paused, and only the end of its pause changes.
    """
    pause = service.declarations.pause_pool
    done = pause(name, user=user, reason=body.reason, until=body.until, expected=expected)
    paused = PoolPaused(done.view.shown(service.backend_name), done.waiting, done.running)
    return reply(paused, etag=etag_of(done.view.pool))


@router(
    "POST /api/v1/pools/{name}/resume",
    needs(Permission.CHANGE_POOL, named("name")),
    shows=Pool,
    tag=True,
    errors=(409, 413),
)
def resume_pool(service: Serving, user: User, expected: IfMatch, name: str) -> Response:
    """Resume a paused pool. Its workflows keep their queue positions."""
    return _reply(service, service.declarations.resume_pool(name, user=user, expected=expected))


@router(
    "DELETE /api/v1/pools/{name}",
    needs(Permission.CHANGE_CLUSTER, named("name"), of_subpool=Permission.CHANGE_SUBPOOLS),
    said={409: DRAINING},
)
def delete_pool(service: Serving, user: User, expected: IfMatch, name: str, dry_run: DryRun = False) -> PoolDeleted:
    """Delete a pool. It is ARCHIVED immediately, or DELETING until its running workflows finish."""
    done = service.declarations.delete_pool(name, user=user, dry_run=dry_run, expected=expected)
    return PoolDeleted(done.view.shown(service.backend_name), done.cancelled)


# ---------------------------------------------------------------- the audit trail


@router("GET /api/v1/pools/{name}/history", _READ)
def list_pool_changes(
    service: Serving,
    user: User,
    asker: Asking,
    name: str,
    since: Annotated[At | None, Query(description="From this time, inclusive")] = None,
    until: Annotated[At | None, Query(description="Until this time, inclusive")] = None,
    by: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=LONGEST_USER_NAME,
            description="Changes by this user; `runrig` selects automatic changes",
        ),
    ] = None,
    pool: Annotated[
        str | None,
        Query(description="Only this subpool, by its short or full name. The pool's own name excludes subpools"),
    ] = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> PoolChangePage:
    """List changes of a pool and its subpools, newest first."""
    if by is not None and not by.isprintable():
        raise InvalidInput.one(f"invalid user name {by!r:.80}. Use printable characters only", "by")
    after = place_of(cursor, int, int)
    found, more = service.history.changes(
        name,
        asker.visibility,
        subpool=pool,
        by=by,
        since=since,
        until=until,
        before=None if after is None else (after[0], after[1]),
        limit=limit,
    )
    if by is not None and not found and by not in (*asker.known_users(user), history.RUNRIG):
        ever, _ = service.history.changes(name, asker.visibility, by=by, limit=1)
        if not ever:
            raise NotFound(f"user {by!r} has not changed pool {name}. To see who has, use `runrig pool history {name}`")
    following = cursor_of((found[-1].revision, found[-1].seq)) if more else None
    return PoolChangePage(following, found)


@router("GET /api/v1/pools/{name}/why", _READ)
def explain_pool(service: Serving, visibility: Seeing, name: str) -> PoolWhy:
    """Explain why workflows of a pool are waiting, grouped by reason."""
    return service.workflow_queries.pool_why(name, visibility)


@router("GET /api/v1/pools/{name}/past", _READ)
def get_past_pool(
    service: Serving,
    visibility: Seeing,
    name: str,
    at: Annotated[At, Query(description="UTC unless it has a time zone")],
) -> PoolPast:
    """Show a pool and its subpools as declared at a past time."""
    return service.history.pool_at(name, at, visibility)
