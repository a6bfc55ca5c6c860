"""The signed-in user: roles, tokens, logout."""

from fastapi import APIRouter, Response

from runrig.api import browsers
from runrig.api.permissions import needs
from runrig.api.routing import Route, Serving, Who
from runrig.domain.access import Permission
from runrig.web.pages.parts import Asked
from runrig.web.rendering import html

router = APIRouter(route_class=Route, include_in_schema=False)


@router.get("/me", dependencies=[needs(Permission.CONNECT)])
def me(request: Asked, service: Serving, who: Who) -> Response:
    cookie = browsers.cookie(request.headers, request.app.state.scheme)
    return html(
        request,
        "me.html",
        secret=True,
        who=who,
        roles=[str(grant) for grant in who.grants],
        tokens=service.access.tokens.of(who.user),
        csrf=None if cookie is None else service.access.browsers.csrf(cookie),
    )
