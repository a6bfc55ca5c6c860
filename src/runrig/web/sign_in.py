"""Sign-in with the identity provider: a link sends the browser there, and it returns with a code.

A separate cookie connects both requests: browsers send it although another site redirected them (`SameSite=Lax`).
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from runrig.domain.errors import NotFound, RunrigError
from runrig.http import browsers
from runrig.http.permissions import OPEN
from runrig.http.routing import Asked, Serving, source
from runrig.service.access.in_browsers import PATIENCE_S, InBrowsers
from runrig.service.service import Service
from runrig.web.login import inside, keep_session, shown_login
from runrig.web.rendering import html, keep_cookie
from runrig.web.routes import router

answers = APIRouter(include_in_schema=False)
"""Routes that accept additional parameters of an identity provider."""

BACK = "/login/oidc/return"
LONGEST_NEXT = 1000
"""Maximum characters. A longer address is replaced by the overview."""


@router.get("/login/oidc", dependencies=[OPEN])
def begin_sign_in(request: Asked, service: Serving, next: Annotated[str, Query()] = "/") -> Response:
    browsers.check_own_page(request.headers)
    kept, url = _ways(service).begin(_own(request) + BACK)
    answer = RedirectResponse(url, 303)
    place = inside(next)
    keep_cookie(
        request,
        answer,
        _name(request),
        f"{kept}.{place.encode().hex() if len(place) <= LONGEST_NEXT else ''}",
        int(PATIENCE_S),
    )
    return answer


@answers.get(BACK, dependencies=[OPEN])
def end_sign_in(request: Request) -> Response:
    """A page that redirects itself, because browsers withhold session cookies from requests caused by another site."""
    service: Service = request.app.state.service
    kept, _, place = request.cookies.get(_name(request), "").rpartition(".")
    next = inside(_text(place))
    own = _own(request)
    try:
        sent = dict(request.query_params)
        cookie = _ways(service).finish(kept or None, sent, own + BACK, own, source(request.scope))
        answer = html(request, "signed_in.html", next=next)
        keep_session(request, answer, cookie)
    except RunrigError as error:
        answer = shown_login(request, next, error)
    keep_cookie(request, answer, _name(request), "", 0)
    return answer


def _ways(service: Service) -> InBrowsers:
    found = service.access.in_browsers
    if found is None:
        raise NotFound("single sign-on is not configured on this server. Use a token or `runrig open`")
    return found


def _own(request: Request) -> str:
    """Returns the address of this server, as browsers see it."""
    return f"{request.app.state.scheme}://{request.headers['host'].lower()}"


def _text(place: str) -> str:
    try:
        return bytes.fromhex(place).decode()
    except ValueError:
        return "/"


def _name(request: Request) -> str:
    return f"{browsers.cookie_name(request.headers, request.app.state.scheme)}-sign-in"
