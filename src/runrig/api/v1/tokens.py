"""Tokens, one's own and those of others, and who asks."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response

from runrig.api.error_docs import Said
from runrig.api.permissions import needs
from runrig.api.routing import IdempotencyKey, Route, Serving, Who
from runrig.api.v1.answers import access as as_answers
from runrig.api.v1.frame import creates, reply, shows
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cut, place_of
from runrig.domain.access import Identity, Permission, TokenRow, allows
from runrig.domain.pools import PoolState
from runrig.service.service import Service
from runrig.wire import TokenCreateRequest, v1

router = APIRouter(route_class=Route, tags=["access"])

_OWN = [needs(Permission.OWN_TOKENS)]
_ACCESS = [needs(Permission.ACCESS)]

_TAKEN: Said = ("alice has a token 'laptop' already: choose another name, or delete that one first", {})
_TWICE = "The same request with the same Idempotency-Key is told the same token again, for ten minutes."

Ended = Annotated[bool, Query(description="Also those that are expired or revoked")]


@router.get(
    "/api/v1/me",
    summary="Who you are, and where you may submit",
    dependencies=[needs(Permission.CONNECT)],
    responses=shows(v1.Me),
)
def get_me(service: Serving, who: Who) -> v1.Me:
    there = [view.pool.name for view in service.queries.pools() if view.pool.state is PoolState.ACTIVE]
    pools = sorted(name for name in there if allows(who, Permission.SUBMIT, pool=name))
    default = service.access.profile(who.user).default_of(pools)
    return as_answers.me(who, pools, default, service.access.tokens.get(who.token))


@router.get("/api/v1/tokens", summary="Your tokens", dependencies=_OWN, responses=shows(v1.TokenPage))
def list_tokens(
    service: Serving, who: Who, ended: Ended = False, limit: Limit = USUAL_PAGE, cursor: Cursor = None
) -> v1.TokenPage:
    return _page(service, who.user, ended, limit, cursor)


def _page(service: Service, user: str, ended: bool, limit: int, cursor: str | None) -> v1.TokenPage:
    after = place_of(cursor, float, str)
    page, following = cut(service.access.tokens.of(user, ended=ended), _place, limit, after)
    now = service.access.now()
    return v1.TokenPage(items=[as_answers.token(each, now) for each in page], next_cursor=following)


def _place(row: TokenRow) -> tuple[float, str]:
    return float(row.created_at), row.id


@router.post(
    "/api/v1/tokens",
    summary="Create a token for yourself",
    description=_TWICE,
    dependencies=_OWN,
    status_code=201,
    response_model=v1.TokenMade,
    responses=creates(v1.TokenMade, 404, 409, 413, said={409: _TAKEN}),
)
def create_token(service: Serving, who: Who, key: IdempotencyKey, body: TokenCreateRequest) -> Response:
    return _made(service, who, who.user, key, body)


def _made(service: Service, who: Identity, user: str, key: str | None, body: TokenCreateRequest) -> Response:
    text = None if key is None else service.access.authentication.derived(who.user, key)
    made = service.access.tokens.create(user, body.name, body.expires_in_s, actor=who.user, text=text, by=who.token)
    location = f"/api/v1/users/{quote(user, safe='')}/tokens/{quote(body.name, safe='')}"
    return reply(as_answers.made(made, service.access.now()), 201, location=location)


@router.delete(
    "/api/v1/tokens/{name}",
    summary="Revoke a token of yours",
    dependencies=_OWN,
    responses=shows(v1.Token, 404),
)
def revoke_token(service: Serving, who: Who, name: str) -> v1.Token:
    return as_answers.token(service.access.tokens.revoke(who.user, name, actor=who.user), service.access.now())


# ---------------------------------------------------------------- those of others


@router.get(
    "/api/v1/users/{user}/tokens", summary="Tokens of a user", dependencies=_ACCESS, responses=shows(v1.TokenPage, 404)
)
def list_user_tokens(
    service: Serving, user: str, ended: Ended = False, limit: Limit = USUAL_PAGE, cursor: Cursor = None
) -> v1.TokenPage:
    return _page(service, service.access.users.get(user).name, ended, limit, cursor)


@router.post(
    "/api/v1/users/{user}/tokens",
    summary="Create a token for a user",
    description=_TWICE,
    dependencies=_ACCESS,
    status_code=201,
    response_model=v1.TokenMade,
    responses=creates(v1.TokenMade, 404, 409, 413, said={409: _TAKEN}),
)
def create_user_token(service: Serving, who: Who, key: IdempotencyKey, user: str, body: TokenCreateRequest) -> Response:
    return _made(service, who, user, key, body)


@router.delete(
    "/api/v1/users/{user}/tokens/{name}",
    summary="Revoke a token of a user",
    dependencies=_ACCESS,
    responses=shows(v1.Token, 404),
)
def revoke_user_token(service: Serving, who: Who, user: str, name: str) -> v1.Token:
    found = service.access.users.get(user)
    return as_answers.token(service.access.tokens.revoke(found.name, name, actor=who.user), service.access.now())
