"""The login of the reference client."""

from typing import Annotated

from fastapi import APIRouter

from runrig import wire
from runrig.api.guard import source
from runrig.api.permissions import OPEN
from runrig.api.routing import Found, Route, Serving, answers
from runrig.domain.errors import NotFound
from runrig.service.access.dev_login import BY_TOKEN

router = APIRouter(route_class=Route, tags=["access"])


@router.get(
    "/api/auth/login",
    summary="Where else than by a token the client could log in",
    description="Nowhere: the client shows the 404 to whoever chose another method.",
    dependencies=[OPEN],
    responses=answers(wire.LoginAnswer, 404),
)
def login() -> wire.LoginAnswer:
    raise NotFound(f"this method does not work here: {BY_TOKEN}")


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
