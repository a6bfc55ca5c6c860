"""Routes for the osmo client's `token list|set|delete|roles` and `user list|get|create|update|delete`.

There, a role is `osmo-` and its name in runrig: `osmo-admin`, `osmo-user`, `osmo-vision-user`, `osmo-vision-admin`.
"""

from datetime import UTC, date, datetime
from typing import Annotated

from fastapi import Query
from fastapi.responses import JSONResponse, Response

from runrig.api.error_docs import NO_TOKEN, Said
from runrig.api.osmo import models
from runrig.api.routes import Router
from runrig.domain.access import Grant, GrantRow, Identity, Permission, User, role_named
from runrig.domain.errors import InvalidInput, NotFound
from runrig.http.permissions import needs
from runrig.http.routing import Serving, Who
from runrig.service.access.tokens import LONGEST_EXPIRY_S
from runrig.service.service import Service
from runrig.wire.base import utc

router = Router("access")

LONGEST_PAGE = 10_000
PREFIX = "osmo-"
NEVER = datetime(9999, 12, 31)  # noqa: DTZ001 - as the client reads times
"""The expiry shown for a token that does not expire, because the osmo client fails on null."""

_OWN = needs(Permission.OWN_TOKENS)
_ACCESS = needs(Permission.ACCESS)

_NO_USER: Said = ("user 'alise' not found. List users with `runrig user list`", {})
_USER_TAKEN: Said = ("user alice already exists. Grant more roles with `runrig role grant alice ROLE`", {})
_LAST_ADMIN: Said = (
    "root is the last administrator. Grant the role to someone else first: `runrig role grant USER admin`",
    {},
)

_TEXT = {"schema": {"type": "string"}, "example": "the-43-characters-that-are-shown-only-this-once"}
_NOTHING = {"schema": {"type": "null"}, "example": None}


# ---------------------------------------------------------------- tokens

Ends = Annotated[
    str, Query(alias="expires_at", description="Day as YYYY-MM-DD; the token expires when it begins, in UTC")
]
Description = Annotated[str, Query(description="Purpose of the token")]
Roles = Annotated[list[str], Query(description="Roles to grant. Default: all roles of the user")]


@router("GET /api/auth/access_token", _OWN)
def list_access_tokens(service: Serving, who: Who) -> list[models.AccessTokenAnswer]:
    """List your tokens."""
    return _tokens(service, who.user)


def _tokens(service: Service, user: str) -> list[models.AccessTokenAnswer]:
    grants = tuple(row.grant for row in service.access.users.grants(user))
    return [
        models.AccessTokenAnswer(
            user_name=row.user,
            token_name=row.name,
            expires_at=utc(row.expires_at) or NEVER,
            description=row.description,
            roles=[name_of(each) for each in row.gives(grants)],
        )
        for row in service.access.tokens.of(user)
    ]


@router("POST /api/auth/access_token/{name}", _OWN, errors=(409,), said={404: _NO_USER}, content=_TEXT)
def create_access_token(
    service: Serving,
    who: Who,
    name: str,
    ends: Ends,
    description: Description = "",
    roles: Roles = [],  # noqa: B006
) -> Response:
    """Create a token for yourself. It is shown only once."""
    return _made(service, who, who.user, name, ends, description, roles)


def _made(
    service: Service, who: Identity, user: str, name: str, ends: str, description: str, roles: list[str]
) -> Response:
    given = [_role(service, each) for each in roles] or None
    lives_s = _seconds_until(ends, service.access.now())
    made = service.access.tokens.create(
        user, name, lives_s, actor=who.user, description=description, roles=given, by=who.token
    )
    return JSONResponse(made.text)


def _seconds_until(text: str, now: float) -> float:
    """Returns the seconds from *now* to the start of day *text* in UTC. Raises InvalidInput unless it lies ahead."""
    try:
        day = date.fromisoformat(text)
        at = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise InvalidInput.one(f"invalid day {text!r:.80}. Use YYYY-MM-DD, such as 2027-01-31", "expires_at") from None
    if at <= now:
        raise InvalidInput.one(f"{text} has already begun. Use a later day", "expires_at")
    if at - now > LONGEST_EXPIRY_S:
        last = datetime.fromtimestamp(now + LONGEST_EXPIRY_S, UTC).date()
        raise InvalidInput.one(f"{text} is too late: a token ends on {last} at the latest", "expires_at")
    return at - now


def name_of(grant: Grant) -> str:
    return f"{PREFIX}{grant}"


def _role(service: Service, text: str) -> Grant:
    """Returns the role that *text* names, in either spelling.

    Raises InvalidInput, also if both spellings fit: a pool can be called `osmo`, or begin with `osmo-`.
    """
    theirs = text.removeprefix(PREFIX)
    if theirs == text:
        return role_named(text)
    try:
        ours = role_named(text)
    except InvalidInput:
        ours = None
    if ours is not None and ours.pool in {pool.name for pool in service.queries.declared()}:
        raise InvalidInput.one(
            f"{text!r} is ambiguous: the osmo name of {theirs!r}, or the role {ours} on pool {ours.pool!r}. "
            f"Use {theirs!r} or {name_of(ours)!r}",
            "role",
        )
    return role_named(theirs)


@router("DELETE /api/auth/access_token/{name}", _OWN, said={404: NO_TOKEN}, content=_NOTHING)
def delete_access_token(service: Serving, who: Who, name: str) -> Response:
    """Revoke one of your tokens."""
    service.access.tokens.revoke(who.user, name, actor=who.user, by=who.token)
    return JSONResponse(None)


@router("GET /api/auth/access_token/{name}/roles", _OWN, said={404: NO_TOKEN})
def get_access_token_roles(service: Serving, who: Who, name: str) -> models.AccessTokenRolesAnswer:
    """Show the roles of one of your tokens."""
    row = service.access.tokens.named(who.user, name)
    given = [_assigned(each) for each in service.access.users.grants(who.user) if row.gives((each.grant,))]
    return models.AccessTokenRolesAnswer(user_name=row.user, token_name=row.name, roles=given)


def _assigned(row: GrantRow) -> models.AssignedRoleAnswer:
    return models.AssignedRoleAnswer(
        role_name=name_of(row.grant), assigned_by=row.granted_by, assigned_at=utc(row.granted_at)
    )


@router("GET /api/auth/user/{user}/access_token", _ACCESS, said={404: _NO_USER})
def list_access_tokens_of(service: Serving, user: str) -> list[models.AccessTokenAnswer]:
    """List a user's tokens."""
    return _tokens(service, _account(service, user).name)


@router("POST /api/auth/user/{user}/access_token/{name}", _ACCESS, errors=(409,), said={404: _NO_USER}, content=_TEXT)
def create_access_token_for(
    service: Serving,
    who: Who,
    user: str,
    name: str,
    ends: Ends,
    description: Description = "",
    roles: Roles = [],  # noqa: B006
) -> Response:
    """Create a token for a user. It is shown only once."""
    return _made(service, who, _account(service, user).name, name, ends, description, roles)


@router("DELETE /api/auth/user/{user}/access_token/{name}", _ACCESS, said={404: NO_TOKEN}, content=_NOTHING)
def delete_access_token_of(service: Serving, who: Who, user: str, name: str) -> Response:
    """Revoke a user's token."""
    service.access.tokens.revoke(_account(service, user).name, name, actor=who.user, by=who.token)
    return JSONResponse(None)


# ---------------------------------------------------------------- users


def _account(service: Service, name: str) -> User:
    """Raises NotFound, also for a removed user."""
    user = service.access.users.get(name)
    if user.removed:
        raise NotFound(f"user {name!r:.80} was deleted")
    return user


@router("GET /api/auth/user", _ACCESS)
def list_accounts(
    service: Serving,
    start_index: Annotated[int, Query(ge=1, le=2**31, description="Counts from 1")] = 1,
    count: Annotated[int, Query(ge=0, le=LONGEST_PAGE)] = 100,
    id_prefix: Annotated[str | None, Query(description="Only users whose name starts with this")] = None,
    roles: Annotated[list[str], Query(description="Only users with any of these roles")] = [],  # noqa: B006
) -> models.AccountsAnswer:
    """List users by name, without deleted ones."""
    asked = {_role(service, each) for each in roles}
    found = [
        user
        for user in sorted(service.access.users.all(), key=lambda each: each.name)
        if not user.removed and user.name.startswith(id_prefix or "") and (not asked or asked & set(user.grants))
    ]
    page = found[start_index - 1 :][:count]
    return models.AccountsAnswer(
        total_results=len(found),
        start_index=start_index,
        items_per_page=len(page),
        users=[_shown(each) for each in page],
    )


def _shown(user: User) -> models.AccountAnswer:
    return models.AccountAnswer(id=user.name, created_at=utc(user.created_at))


@router("POST /api/auth/user", _ACCESS, errors=(404,), said={409: _USER_TAKEN})
def create_account(service: Serving, who: Who, body: models.AccountCreateRequest) -> models.AccountAnswer:
    """Create a user, or restore a deleted one."""
    roles = [_role(service, each) for each in body.roles or ()]
    return _shown(service.access.users.create(body.id, roles, actor=who.user, anew=True))


@router("GET /api/auth/user/{user}", _ACCESS, said={404: _NO_USER})
def get_account(service: Serving, user: str) -> models.AccountWithRolesAnswer:
    """Show a user and their roles."""
    found, roles = _shown(_account(service, user)), map(_assigned, service.access.users.grants(user))
    return models.AccountWithRolesAnswer(**found.model_dump(), roles=list(roles))


@router("DELETE /api/auth/user/{user}", _ACCESS, said={404: _NO_USER, 409: _LAST_ADMIN}, content=_NOTHING)
def delete_account(service: Serving, who: Who, user: str) -> Response:
    """Delete a user's tokens and roles. The name stays in the logs; running workflows continue."""
    service.access.users.remove(_account(service, user).name, actor=who.user)
    return JSONResponse(None)


@router("POST /api/auth/user/{user}/roles", _ACCESS, said={404: _NO_USER})
def assign_role(service: Serving, who: Who, user: str, body: models.RoleAssignRequest) -> models.RoleAssignmentAnswer:
    """Grant a role."""
    role = _role(service, body.role_name)
    service.access.users.grant(_account(service, user).name, role, actor=who.user)
    (row,) = (each for each in service.access.users.grants(user) if each.grant == role)
    return models.RoleAssignmentAnswer(user_id=row.user, **_assigned(row).model_dump())


@router("DELETE /api/auth/user/{user}/roles/{role}", _ACCESS, said={404: _NO_USER, 409: _LAST_ADMIN}, content=_NOTHING)
def withdraw_role(service: Serving, who: Who, user: str, role: str) -> Response:
    """Revoke a role."""
    service.access.users.withdraw(_account(service, user).name, _role(service, role), actor=who.user)
    return JSONResponse(None)
