"""Users, their roles, and the audit trail of access."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Response

from runrig.api.routes import Router
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cursor_of, cut, place_of
from runrig.domain import access
from runrig.domain.access import GrantRow, Permission, role_named
from runrig.domain.errors import NotFound
from runrig.domain.shown.access import Role, RolePage, User, UserPage
from runrig.domain.trail import AccessEventPage
from runrig.http.permissions import needs
from runrig.http.routing import IdempotencyKey, IfMatch, Serving, Who, reply
from runrig.service.service import Service
from runrig.wire import v1

router = Router("access")

_ACCESS = needs(Permission.ACCESS)

# ---------------------------------------------------------------- users


@router("GET /api/v1/users", _ACCESS)
def list_users(service: Serving, limit: Limit = USUAL_PAGE, cursor: Cursor = None) -> UserPage:
    """List users by name."""
    found = sorted(service.access.users.all(), key=_by_name)
    page, following = cut(found, _by_name, limit, cursor, str)
    return UserPage(following, tuple(map(User.of, page)))


def _by_name(user: access.User) -> tuple[str]:
    return (user.name,)


@router("POST /api/v1/users", _ACCESS, creates=User, tag=True, errors=(404, 409))
def create_user(service: Serving, who: Who, key: IdempotencyKey, body: v1.UserCreateRequest) -> Response:
    """Create a user.

    With an Idempotency-Key, an identical existing user is returned as if it had just been created.
    """
    roles = [role_named(role) for role in body.roles]
    made = service.access.users.create(body.name, roles, actor=who.user, again=key is not None)
    return reply(User.of(made), 201, location=f"/api/v1/users/{quote(made.name, safe='')}")


@router("GET /api/v1/users/{name}", _ACCESS, tag=True)
def get_user(service: Serving, name: str) -> User:
    """Show a user and their roles."""
    return User.of(service.access.users.get(name))


@router("PATCH /api/v1/users/{name}", _ACCESS, tag=True, errors=(409,))
def update_user(service: Serving, who: Who, expected: IfMatch, name: str, body: v1.UserEditRequest) -> User:
    """Disable or enable a user."""
    users = service.access.users
    return User.of(users.set_disabled(name, body.disabled, actor=who.user, expected=expected))


# ---------------------------------------------------------------- roles


@router("GET /api/v1/roles", _ACCESS, errors=(404,))
def list_roles(
    service: Serving,
    user: Annotated[str | None, Query(description="Only roles of this user")] = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> RolePage:
    """List roles and who has them."""
    found = service.access.users.grants(user)
    if not found and user is not None:
        service.access.users.get(user)
    page, following = cut(sorted(found, key=_place), _place, limit, cursor, str, str)
    return RolePage(following, tuple(map(Role.of, page)))


def _place(row: GrantRow) -> tuple[str, str]:
    return row.user, str(row.grant)


@router("POST /api/v1/roles", _ACCESS, creates=Role, tag=True, errors=(404,))
def grant_role(service: Serving, who: Who, key: IdempotencyKey, body: v1.RoleGrantRequest) -> Response:  # noqa: ARG001 - to grant it twice is to grant it once, with a key or without
    """Grant a role. A role that the user already has stays unchanged."""
    user = service.access.users.grant(body.user, role_named(body.role), actor=who.user)
    granted = _role(service, user.name, body.role)
    location = f"/api/v1/roles/{quote(user.name, safe='')}/{body.role}"
    return reply(Role.of(granted), 201, location=location)


def _role(service: Service, user: str, role: str) -> GrantRow:
    """Returns who granted *role* to *user*, and when. Raises NotFound."""
    grant = role_named(role)
    for row in service.access.users.grants(user):
        if row.grant == grant:
            return row
    raise NotFound(f"user {user} does not have the role {grant}")


@router("GET /api/v1/roles/{user}/{role}", _ACCESS, tag=True)
def get_role(service: Serving, user: str, role: str) -> Role:
    """Show when and by whom a role was granted."""
    return Role.of(_role(service, user, role))


@router("DELETE /api/v1/roles/{user}/{role}", _ACCESS, errors=(409,))
def revoke_role(service: Serving, who: Who, expected: IfMatch, user: str, role: str) -> None:
    """Revoke a role."""
    service.access.users.withdraw(user, role_named(role), actor=who.user, expected=expected)


@router("GET /api/v1/access-events", _ACCESS, errors=(404,))
def list_access_events(
    service: Serving,
    user: Annotated[str | None, Query(description="Only entries about this user")] = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> AccessEventPage:
    """List the audit trail of users, roles and tokens, newest first."""
    after = place_of(cursor, int)
    found = service.access.events(user=user, before=after[0] if after else None, limit=limit + 1)
    if not found and user is not None:
        service.access.users.get(user)
    following = cursor_of((found[limit - 1].number,)) if len(found) > limit else None
    return AccessEventPage(following, found[:limit])
