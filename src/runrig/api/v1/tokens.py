"""The user's tokens, those of other users, and the identity of the user."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Response

from runrig.api.error_docs import CLOSED, NO_POOL, NO_TOKEN, Said
from runrig.api.routes import Router
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cut
from runrig.domain.access import Identity, Permission, TokenRow, role_named
from runrig.domain.keep import KEEP
from runrig.domain.shown.access import Me, MyToken, Token, TokenMade, TokenPage
from runrig.domain.tags import Expected
from runrig.domain.value import at
from runrig.http.permissions import Asking, needs
from runrig.http.routing import IdempotencyKey, IfMatch, Serving, Who, reply
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.wire import v1

router = Router("access")

_OWN = needs(Permission.OWN_TOKENS)
_ACCESS = needs(Permission.ACCESS)

_TAKEN: Said = ("alice already has a token 'laptop'. Choose another name, or delete that token first", {})

Ended = Annotated[bool, Query(description="Include expired and revoked tokens")]


@router("GET /api/v1/me", needs(Permission.CONNECT))
def get_me(service: Serving, who: Who, asker: Asking) -> Me:
    """Show your user and the pools that you can submit to."""
    return _me(service, who, asker)


@router("PATCH /api/v1/me", needs(Permission.CHANGE_OWN), said={404: NO_POOL, 409: CLOSED})
def update_me(service: Serving, who: Who, asker: Asking, body: v1.MeEdit) -> Me:
    """Set your default pool, or remove it."""
    if body.default_pool is not None:
        asker.check_submits(body.default_pool)
    service.access.set_profile(who.user, {"pool": body.default_pool})
    return _me(service, who, asker)


def _me(service: Service, who: Identity, asker: Asker) -> Me:
    pools = asker.submits_to()
    default = service.access.profile(who.user).default_of(pools)
    return Me(who.user, tuple(map(str, who.grants)), tuple(pools), default, _of_request(service, who))


def _of_request(service: Service, who: Identity) -> MyToken | None:
    if who.sign_in is not None:
        return MyToken("sign-in", at(who.sign_in.ends_at))
    row = service.access.tokens.get(who.token)
    return None if row is None else MyToken(row.name, at(row.expires_at))


@router("GET /api/v1/tokens", _OWN)
def list_tokens(
    service: Serving, who: Who, ended: Ended = False, limit: Limit = USUAL_PAGE, cursor: Cursor = None
) -> TokenPage:
    """List your tokens."""
    return _page(service, who.user, ended, limit, cursor)


def _page(service: Service, user: str, ended: bool, limit: int, cursor: str | None) -> TokenPage:
    page, following = cut(service.access.tokens.of(user, ended=ended), _place, limit, cursor, float, str)
    now = service.access.now()
    return TokenPage(following, tuple(Token.of(each, now) for each in page))


def _place(row: TokenRow) -> tuple[float, str]:
    return float(row.created_at), row.id


@router("POST /api/v1/tokens", _OWN, creates=TokenMade, tag=True, errors=(404,), said={409: _TAKEN})
def create_token(service: Serving, who: Who, key: IdempotencyKey, body: v1.TokenCreateRequest) -> Response:
    """Create a token for yourself.

    For ten minutes, the same request with the same Idempotency-Key returns the same token again.
    """
    return _made(service, who, who.user, key, body)


def _made(service: Service, who: Identity, user: str, key: str | None, body: v1.TokenCreateRequest) -> Response:
    made = service.access.tokens.create(
        user,
        body.name,
        body.expires_in_s,
        actor=who.user,
        text=None if key is None else service.access.authentication.derived(who.user, key),
        description=body.description,
        roles=None if body.roles is None else [role_named(each) for each in body.roles],
        by=who.token,
    )
    location = f"/api/v1/users/{quote(user, safe='')}/tokens/{quote(body.name, safe='')}"
    return reply(TokenMade.of(made.row, service.access.now(), token=made.text), 201, location=location)


@router("GET /api/v1/tokens/{name}", _OWN, tag=True, said={404: NO_TOKEN})
def get_token(service: Serving, who: Who, name: str) -> Token:
    """Show one of your valid tokens."""
    return Token.of(service.access.tokens.named(who.user, name), service.access.now())


@router("PATCH /api/v1/tokens/{name}", _OWN, tag=True, said={404: NO_TOKEN})
def update_token(service: Serving, who: Who, expected: IfMatch, name: str, body: v1.TokenEdit) -> Token:
    """Change the description or roles of one of your tokens."""
    return _changed(service, who, who.user, name, body, expected)


def _changed(service: Service, who: Identity, user: str, name: str, body: v1.TokenEdit, expected: Expected) -> Token:
    sent = body.model_fields_set
    roles = None if body.roles is None else [role_named(each) for each in body.roles]
    row = service.access.tokens.change(
        user,
        name,
        actor=who.user,
        by=who.token,
        description=body.description if "description" in sent else KEEP,
        roles=roles if "roles" in sent else KEEP,
        expected=expected,
    )
    return Token.of(row, service.access.now())


@router("DELETE /api/v1/tokens/{name}", _OWN, said={404: NO_TOKEN})
def revoke_token(service: Serving, who: Who, expected: IfMatch, name: str) -> Token:
    """Revoke one of your tokens."""
    row = service.access.tokens.revoke(who.user, name, actor=who.user, by=who.token, expected=expected)
    return Token.of(row, service.access.now())


# ---------------------------------------------------------------- those of others


@router("GET /api/v1/users/{user}/tokens", _ACCESS)
def list_user_tokens(
    service: Serving, user: str, ended: Ended = False, limit: Limit = USUAL_PAGE, cursor: Cursor = None
) -> TokenPage:
    """List a user's tokens."""
    return _page(service, service.access.users.get(user).name, ended, limit, cursor)


@router("POST /api/v1/users/{user}/tokens", _ACCESS, creates=TokenMade, tag=True, said={409: _TAKEN})
def create_user_token(
    service: Serving, who: Who, key: IdempotencyKey, user: str, body: v1.TokenCreateRequest
) -> Response:
    """Create a token for a user.

    For ten minutes, the same request with the same Idempotency-Key returns the same token again.
    """
    return _made(service, who, user, key, body)


@router("GET /api/v1/users/{user}/tokens/{name}", _ACCESS, tag=True, said={404: NO_TOKEN})
def get_user_token(service: Serving, user: str, name: str) -> Token:
    """Show a user's valid token."""
    return Token.of(service.access.tokens.named(service.access.users.get(user).name, name), service.access.now())


@router("PATCH /api/v1/users/{user}/tokens/{name}", _ACCESS, tag=True, said={404: NO_TOKEN})
def update_user_token(service: Serving, who: Who, expected: IfMatch, user: str, name: str, body: v1.TokenEdit) -> Token:
    """Change the description or roles of a user's token."""
    return _changed(service, who, service.access.users.get(user).name, name, body, expected)


@router("DELETE /api/v1/users/{user}/tokens/{name}", _ACCESS, said={404: NO_TOKEN})
def revoke_user_token(service: Serving, who: Who, expected: IfMatch, user: str, name: str) -> Token:
    """Revoke a user's token."""
    owner = service.access.users.get(user).name
    row = service.access.tokens.revoke(owner, name, actor=who.user, by=who.token, expected=expected)
    return Token.of(row, service.access.now())
