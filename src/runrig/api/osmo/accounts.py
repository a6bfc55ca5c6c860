"""Routes for the osmo client's `token list|set|delete|roles` and `user list|get|create|update|delete`."""

from datetime import UTC, date, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from runrig import wire
from runrig.api.osmo.answers import accounts as as_answers
from runrig.domain.access import Grant, Identity, Permission, User
from runrig.domain.errors import InvalidInput, NotFound
from runrig.http.error_docs import NO_TOKEN, Said
from runrig.http.permissions import needs
from runrig.http.routing import Responses, Route, Serving, Who, answers
from runrig.service.access.tokens import LONGEST_EXPIRY_S
from runrig.service.service import Service
from runrig.wire.base import Answer

router = APIRouter(route_class=Route, tags=["access"])

LONGEST_PAGE = 10_000

_OWN = [needs(Permission.OWN_TOKENS)]
_ACCESS = [needs(Permission.ACCESS)]

_NO_USER: Said = ("user 'alise' not found. List users with `runrig user list`", {})
_USER_TAKEN: Said = ("user alice already exists. Grant more roles with `runrig role grant alice ROLE`", {})
_LAST_ADMIN: Said = (
    "root is the last administrator. Grant the role to someone else first: `runrig role grant USER admin`",
    {},
)


def _documented(
    schema: dict[str, Any], example: object, *errors: int, said: dict[int, Said] | None = None
) -> Responses:
    """As `answers`, for a route whose JSON response is not an object."""
    content = {"application/json": {"schema": schema, "example": example}}
    return answers(wire.AccountAnswer, *errors, said=said) | {200: {"description": "Done", "content": content}}


def _listed(model: type[Answer], *errors: int, said: dict[int, Said] | None = None) -> Responses:
    schema = {"type": "array", "items": model.model_json_schema()}
    return _documented(schema, [model.example()], *errors, said=said)


def _nothing(*errors: int, said: dict[int, Said] | None = None) -> Responses:
    return _documented({"type": "null"}, None, *errors, said=said)


_TOLD = _documented(
    {"type": "string"}, "the-43-characters-that-are-shown-only-this-once", 404, 409, said={404: _NO_USER}
)


# ---------------------------------------------------------------- tokens

Ends = Annotated[
    str, Query(alias="expires_at", description="Day as YYYY-MM-DD; the token expires when it begins, in UTC")
]
Description = Annotated[str, Query(description="Purpose of the token")]
Roles = Annotated[list[str], Query(description="Roles to grant. Default: all roles of the user")]


@router.get(
    "/api/auth/access_token",
    summary="List your tokens",
    dependencies=_OWN,
    responses=_listed(wire.AccessTokenAnswer),
)
def list_access_tokens(service: Serving, who: Who) -> Response:
    return _tokens(service, who.user)


def _tokens(service: Service, user: str) -> Response:
    grants = tuple(row.grant for row in service.access.users.grants(user))
    tokens = [as_answers.token(row, grants) for row in service.access.tokens.of(user)]
    return JSONResponse([each.model_dump(mode="json") for each in tokens])


@router.post(
    "/api/auth/access_token/{name}",
    summary="Create a token for yourself. It is shown only once",
    dependencies=_OWN,
    responses=_TOLD,
)
def create_access_token(
    service: Serving,
    who: Who,
    name: str,
    ends: Ends,
    description: Description = "",
    roles: Roles = [],  # noqa: B006
) -> Response:
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


def _role(service: Service, text: str) -> Grant:
    return as_answers.role_meant(text, {pool.name for pool in service.queries.declared()})


@router.delete(
    "/api/auth/access_token/{name}",
    summary="Revoke one of your tokens",
    dependencies=_OWN,
    responses=_nothing(404, said={404: NO_TOKEN}),
)
def delete_access_token(service: Serving, who: Who, name: str) -> Response:
    service.access.tokens.revoke(who.user, name, actor=who.user, by=who.token)
    return JSONResponse(None)


@router.get(
    "/api/auth/access_token/{name}/roles",
    summary="Show the roles of one of your tokens",
    dependencies=_OWN,
    responses=answers(wire.AccessTokenRolesAnswer, 404, said={404: NO_TOKEN}),
)
def get_access_token_roles(service: Serving, who: Who, name: str) -> wire.AccessTokenRolesAnswer:
    return as_answers.token_roles(service.access.tokens.named(who.user, name), service.access.users.grants(who.user))


@router.get(
    "/api/auth/user/{user}/access_token",
    summary="List a user's tokens",
    dependencies=_ACCESS,
    responses=_listed(wire.AccessTokenAnswer, 404, said={404: _NO_USER}),
)
def list_access_tokens_of(service: Serving, user: str) -> Response:
    return _tokens(service, _account(service, user).name)


@router.post(
    "/api/auth/user/{user}/access_token/{name}",
    summary="Create a token for a user. It is shown only once",
    dependencies=_ACCESS,
    responses=_TOLD,
)
def create_access_token_for(
    service: Serving,
    who: Who,
    user: str,
    name: str,
    ends: Ends,
    description: Description = "",
    roles: Roles = [],  # noqa: B006
) -> Response:
    return _made(service, who, _account(service, user).name, name, ends, description, roles)


@router.delete(
    "/api/auth/user/{user}/access_token/{name}",
    summary="Revoke a user's token",
    dependencies=_ACCESS,
    responses=_nothing(404, said={404: NO_TOKEN}),
)
def delete_access_token_of(service: Serving, who: Who, user: str, name: str) -> Response:
    service.access.tokens.revoke(_account(service, user).name, name, actor=who.user, by=who.token)
    return JSONResponse(None)


# ---------------------------------------------------------------- users


def _account(service: Service, name: str) -> User:
    """Raises NotFound, also for a removed user."""
    user = service.access.users.get(name)
    if user.removed:
        raise NotFound(f"user {name!r:.80} was deleted")
    return user


@router.get(
    "/api/auth/user",
    summary="List users by name, without deleted ones",
    dependencies=_ACCESS,
    responses=answers(wire.AccountsAnswer),
)
def list_accounts(
    service: Serving,
    start_index: Annotated[int, Query(ge=1, le=2**31, description="Counts from 1")] = 1,
    count: Annotated[int, Query(ge=0, le=LONGEST_PAGE)] = 100,
    id_prefix: Annotated[str | None, Query(description="Only users whose name starts with this")] = None,
    roles: Annotated[list[str], Query(description="Only users with any of these roles")] = [],  # noqa: B006
) -> wire.AccountsAnswer:
    asked = {_role(service, each) for each in roles}
    found = [
        user
        for user in sorted(service.access.users.all(), key=lambda each: each.name)
        if not user.removed and user.name.startswith(id_prefix or "") and (not asked or asked & set(user.grants))
    ]
    page = found[start_index - 1 :][:count]
    return wire.AccountsAnswer(
        total_results=len(found),
        start_index=start_index,
        items_per_page=len(page),
        users=[as_answers.account(each) for each in page],
    )


@router.post(
    "/api/auth/user",
    summary="Create a user, or restore a deleted one",
    dependencies=_ACCESS,
    responses=answers(wire.AccountAnswer, 404, 409, said={409: _USER_TAKEN}),
)
def create_account(service: Serving, who: Who, body: wire.AccountCreateRequest) -> wire.AccountAnswer:
    roles = [_role(service, each) for each in body.roles or ()]
    return as_answers.account(service.access.users.create(body.id, roles, actor=who.user, anew=True))


@router.get(
    "/api/auth/user/{user}",
    summary="Show a user and their roles",
    dependencies=_ACCESS,
    responses=answers(wire.AccountWithRolesAnswer, 404, said={404: _NO_USER}),
)
def get_account(service: Serving, user: str) -> wire.AccountWithRolesAnswer:
    return as_answers.account_with_roles(_account(service, user), service.access.users.grants(user))


@router.delete(
    "/api/auth/user/{user}",
    summary="Delete a user's tokens and roles. The name stays in the logs; running workflows continue",
    dependencies=_ACCESS,
    responses=_nothing(404, 409, said={404: _NO_USER, 409: _LAST_ADMIN}),
)
def delete_account(service: Serving, who: Who, user: str) -> Response:
    service.access.users.remove(_account(service, user).name, actor=who.user)
    return JSONResponse(None)


@router.post(
    "/api/auth/user/{user}/roles",
    summary="Grant a role",
    dependencies=_ACCESS,
    responses=answers(wire.RoleAssignmentAnswer, 404, said={404: _NO_USER}),
)
def assign_role(service: Serving, who: Who, user: str, body: wire.RoleAssignRequest) -> wire.RoleAssignmentAnswer:
    role = _role(service, body.role_name)
    service.access.users.grant(_account(service, user).name, role, actor=who.user)
    (row,) = (each for each in service.access.users.grants(user) if each.grant == role)
    return as_answers.assignment(row)


@router.delete(
    "/api/auth/user/{user}/roles/{role}",
    summary="Revoke a role",
    dependencies=_ACCESS,
    responses=_nothing(404, 409, said={404: _NO_USER, 409: _LAST_ADMIN}),
)
def withdraw_role(service: Serving, who: Who, user: str, role: str) -> Response:
    service.access.users.withdraw(_account(service, user).name, _role(service, role), actor=who.user)
    return JSONResponse(None)
