"""Routes of users, roles and tokens, and the login of the reference client."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from runrig import wire
from runrig.api.error_docs import Said
from runrig.api.guard import source
from runrig.api.osmo.answers import access as as_answers
from runrig.api.permissions import OPEN, needs
from runrig.api.routing import Found, Route, Serving, Who, answers
from runrig.domain.access import Permission, role_named

router = APIRouter(route_class=Route, tags=["access"])

LONGEST_PAGE = 1000

_OWN = [needs(Permission.OWN_TOKENS)]
_ACCESS = [needs(Permission.ACCESS)]

_NO_TOKEN: Said = ("alice has no token 'lap': there are laptop", {})
_TOKEN_TAKEN: Said = (
    "alice has a token 'laptop' already: choose another name, or delete that one first",
    {},
)
_NO_USER: Said = ("there is no user 'alise': `runrig user list` lists them all", {})
_USER_TAKEN: Said = ("user alice exists already: `runrig role grant alice ROLE` gives more roles", {})
_LAST_ADMIN: Said = ("root is the last admin: make another first, with `runrig role grant USER admin`", {})
_BAD_ROLE: Said = (
    "'vision-boss' is not a role: write admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user",
    {"problems": [{"message": "'vision-boss' is not a role", "path": "role"}]},
)

Ended = Annotated[bool, Query(alias="all", description="Also those that are expired or revoked")]

# ---------------------------------------------------------------- own tokens


@router.get("/api/token", summary="Your tokens", dependencies=_OWN, responses=answers(wire.TokensAnswer))
def list_tokens(service: Serving, who: Who, ended: Ended = False) -> wire.TokensAnswer:
    return as_answers.tokens(service.access.tokens.of(who.user, ended=ended), service.access.now())


@router.post(
    "/api/token",
    summary="Create a token for yourself; it is shown only once",
    dependencies=_OWN,
    responses=answers(wire.TokenMadeAnswer, 404, 409, said={404: _NO_USER, 409: _TOKEN_TAKEN}),
)
def create_token(
    service: Serving, who: Who, body: Annotated[wire.TokenCreateRequest, Body(examples=[{"name": "laptop"}])]
) -> wire.TokenMadeAnswer:
    made = service.access.tokens.create(who.user, body.name, body.expires_in_s, actor=who.user, by=who.token)
    return as_answers.made(made, service.access.now())


@router.delete(
    "/api/token/{name}",
    summary="Revoke a token of yours",
    dependencies=_OWN,
    responses=answers(wire.TokenAnswer, 404, said={404: _NO_TOKEN}),
)
def delete_token(service: Serving, who: Who, name: str) -> wire.TokenAnswer:
    return as_answers.token(service.access.tokens.revoke(who.user, name, actor=who.user), service.access.now())


# ---------------------------------------------------------------- users


@router.get("/api/user", summary="Users, by name", dependencies=_ACCESS, responses=answers(wire.UsersAnswer))
def list_users(service: Serving) -> wire.UsersAnswer:
    return wire.UsersAnswer(users=[as_answers.user(each) for each in service.access.users.all()])


@router.post(
    "/api/user",
    summary="Make a user",
    dependencies=_ACCESS,
    responses=answers(wire.UserAnswer, 404, 409, said={409: _USER_TAKEN, 422: _BAD_ROLE}),
)
def create_user(service: Serving, who: Who, body: wire.UserCreateRequest) -> wire.UserAnswer:
    roles = [role_named(role) for role in body.roles]
    return as_answers.user(service.access.users.create(body.name, roles, actor=who.user))


@router.get(
    "/api/user/{name}",
    summary="One user with the roles",
    dependencies=_ACCESS,
    responses=answers(wire.UserAnswer, 404, said={404: _NO_USER}),
)
def show_user(service: Serving, name: str) -> wire.UserAnswer:
    return as_answers.user(service.access.users.get(name))


@router.patch(
    "/api/user/{name}",
    summary="Disable a user, or enable one again",
    dependencies=_ACCESS,
    responses=answers(wire.UserAnswer, 404, 409, said={404: _NO_USER, 409: _LAST_ADMIN}),
)
def update_user(service: Serving, who: Who, name: str, body: wire.UserEditRequest) -> wire.UserAnswer:
    return as_answers.user(service.access.users.set_disabled(name, body.disabled, actor=who.user))


@router.get(
    "/api/user/{name}/token",
    summary="Tokens of a user",
    dependencies=_ACCESS,
    responses=answers(wire.TokensAnswer, 404, said={404: _NO_USER}),
)
def list_tokens_of(service: Serving, name: str, ended: Ended = False) -> wire.TokensAnswer:
    user = service.access.users.get(name)
    return as_answers.tokens(service.access.tokens.of(user.name, ended=ended), service.access.now())


@router.post(
    "/api/user/{name}/token",
    summary="Create a token for a user; it is shown only once",
    dependencies=_ACCESS,
    responses=answers(wire.TokenMadeAnswer, 404, 409, said={404: _NO_USER, 409: _TOKEN_TAKEN}),
)
def create_token_for(service: Serving, who: Who, name: str, body: wire.TokenCreateRequest) -> wire.TokenMadeAnswer:
    made = service.access.tokens.create(name, body.name, body.expires_in_s, actor=who.user, by=who.token)
    return as_answers.made(made, service.access.now())


@router.delete(
    "/api/user/{name}/token/{token}",
    summary="Revoke a token of a user",
    dependencies=_ACCESS,
    responses=answers(wire.TokenAnswer, 404, said={404: _NO_TOKEN}),
)
def delete_token_of(service: Serving, who: Who, name: str, token: str) -> wire.TokenAnswer:
    user = service.access.users.get(name)
    return as_answers.token(service.access.tokens.revoke(user.name, token, actor=who.user), service.access.now())


# ---------------------------------------------------------------- roles


@router.get("/api/role", summary="Who has which role", dependencies=_ACCESS, responses=answers(wire.RolesAnswer))
def list_roles(service: Serving) -> wire.RolesAnswer:
    return wire.RolesAnswer(roles=[as_answers.role(grant) for grant in service.access.users.grants()])


@router.post(
    "/api/role",
    summary="Grant a role",
    dependencies=_ACCESS,
    responses=answers(wire.UserAnswer, 404, said={404: _NO_USER, 422: _BAD_ROLE}),
)
def grant_role(service: Serving, who: Who, body: wire.RoleGrantRequest) -> wire.UserAnswer:
    return as_answers.user(service.access.users.grant(body.user, role_named(body.role), actor=who.user))


@router.delete(
    "/api/role/{user}/{role}",
    summary="Take a role back",
    dependencies=_ACCESS,
    responses=answers(wire.UserAnswer, 404, 409, said={404: _NO_USER, 409: _LAST_ADMIN, 422: _BAD_ROLE}),
)
def revoke_role(service: Serving, who: Who, user: str, role: str) -> wire.UserAnswer:
    return as_answers.user(service.access.users.withdraw(user, role_named(role), actor=who.user))


@router.get(
    "/api/access/event",
    summary="The audit trail of users, roles and tokens, newest first",
    dependencies=_ACCESS,
    responses=answers(wire.AccessEventsAnswer),
)
def list_events(
    service: Serving,
    user: Annotated[str | None, Query(description="Only what is about this one")] = None,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="Only what is older than that number")] = None,
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 100,
) -> wire.AccessEventsAnswer:
    found = service.access.events(user=user, before=before, limit=limit)
    more = len(found) == limit and found[-1].number > 1
    return wire.AccessEventsAnswer(
        events=[as_answers.event(each) for each in found], next=found[-1].number if more else None
    )


# ---------------------------------------------------------------- the login of the reference client


@router.get(
    "/api/auth/login",
    summary="Where else than by a token one could log in: nowhere",
    dependencies=[OPEN],
    responses=answers(wire.LoginAnswer),
)
def login() -> wire.LoginAnswer:
    return wire.LoginAnswer()


@router.post(
    "/api/auth/jwt/access_token",
    summary="A JWT of five minutes for an access token, as the reference client wants one",
    dependencies=[OPEN],
    responses=answers(wire.ExchangeAnswer, 413),
)
def exchange(
    service: Serving,
    address: Annotated[str, Found(lambda request: source(request.scope))],
    body: wire.ExchangeRequest,
) -> wire.ExchangeAnswer:
    token, expires_at = service.access.authentication.exchange(body.token, address)
    return wire.ExchangeAnswer(token=token, expires_at=expires_at)
