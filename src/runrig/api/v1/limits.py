"""Limits of users, in a pool and over all pools (rule W6)."""

from typing import Annotated

from fastapi import Query

from runrig.api.edits import pool_edit
from runrig.api.routes import Router
from runrig.api.v1.paging import USUAL_PAGE, Cursor, cut
from runrig.api.v1.paging import Limit as Most
from runrig.api.v1.pools import DryRun
from runrig.domain.access import Permission
from runrig.domain.limits import SETTING
from runrig.domain.shown.limits import LimitPage, LimitsChange
from runrig.http.permissions import Asking, Seeing, named, needs
from runrig.http.routing import Serving, User
from runrig.service.queries import limit_queries
from runrig.wire import v1

router = Router("pools")


@router("GET /api/v1/limits", needs(Permission.LIST_POOLS), errors=(404,))
def list_limits(
    service: Serving,
    visibility: Seeing,
    asker: Asking,
    user: Annotated[list[str], Query(description="Only limits of these users")] = [],  # noqa: B006
    pool: Annotated[list[str], Query(description="Only limits in these pools")] = [],  # noqa: B006
    limit: Most = USUAL_PAGE,
    cursor: Cursor = None,
) -> LimitPage:
    """List limits of users, with what counts towards them.

    Users see their own; administrators those of all users.
    """
    for name in pool:
        service.queries.check_pool(name, visibility)
    service.workflow_queries.check_users(user, asker.known_users(asker.identity.user), visibility)
    found = service.limit_queries.limits(visibility, users=user, pools=pool)
    page, following = cut(found, limit_queries.place, limit, cursor, str, str, str)
    return LimitPage(following, tuple(page))


@router("PATCH /api/v1/limits/users/{user}", needs(Permission.CHANGE_CLUSTER))
def edit_limits_of_user(
    service: Serving, by: User, asker: Asking, user: str, body: v1.LimitsEdit, dry_run: DryRun = False
) -> LimitsChange:
    """Limit a user over all pools. Running workflows are not affected."""
    if user not in {*asker.known_users(by), *service.limit_queries.users()}:
        service.access.users.get(user)
    return service.declarations.update_user_limits(user, body.model_dump(exclude_unset=True), by=by, dry_run=dry_run)


@router("PATCH /api/v1/limits/pools/{name}", needs(Permission.CHANGE_POOL, named("name")), errors=(409,))
def edit_limits_of_pool(
    service: Serving, by: User, name: str, body: v1.LimitsEdit, dry_run: DryRun = False
) -> LimitsChange:
    """Limit each user of a pool and its subpools. Running workflows are not affected."""
    asked = {SETTING[field]: value for field, value in body.model_dump(exclude_unset=True).items()}
    edit = pool_edit(name, v1.PoolEdit(**asked), service.declarations.kinds())
    return service.declarations.update_pool_limits(name, edit, user=by, dry_run=dry_run)
