"""Login and logout: a token or a code becomes a session, in a cookie that scripts cannot read."""

import hmac
from typing import Annotated
from urllib.parse import urlencode, urlsplit

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from runrig.domain.errors import NotAllowed, NotLoggedIn, RunrigError
from runrig.domain.statuses import headers_of, status_of
from runrig.http import browsers
from runrig.http.permissions import OPEN
from runrig.http.routing import Asked, Serving, Source
from runrig.service.access.browser_sessions import LONGEST_S
from runrig.service.service import Service
from runrig.web.forms import Fields, fields_in
from runrig.web.rendering import capital, html, keep_cookie
from runrig.web.routes import router

LONGEST_FORM = 32 * 1024
"""Bytes."""
_WRONG = "Invalid or expired token or code. Codes work once and expire after one minute (five minutes for `runrig up`)."


@router.get("/login", dependencies=[OPEN])
def show_login(request: Asked, service: Serving, next: Annotated[str, Query()] = "/") -> Response:
    """Continues a sign-in with the identity provider, and returns the browser to its page.

    If it cannot continue, it starts a new sign-in, without a click if the provider still recognises the browser.
    """
    cookie = browsers.cookie(request.headers, request.app.state.scheme)
    if cookie is not None and service.access.browsers.goes_on(cookie):
        return RedirectResponse(inside(next), 303)
    if cookie is not None and service.access.in_browsers is not None and service.access.browsers.begins_anew(cookie):
        return RedirectResponse(f"/login/oidc?{urlencode({'next': inside(next)})}", 303)
    return shown_login(request, next)


@router.post("/login", dependencies=[OPEN])
async def log_in(request: Asked, service: Serving, address: Source) -> Response:
    form = await _form(request)
    shown, next = form.get("shown", "").strip(), form.get("next", "/")
    try:
        if not shown:
            raise NotLoggedIn
        cookie = await run_in_threadpool(service.access.browsers.enter, shown, address)
    except RunrigError as error:
        return shown_login(request, next, error)
    answer = RedirectResponse(inside(next), 303)
    keep_session(request, answer, cookie)
    return answer


@router.post("/logout", dependencies=[OPEN])
async def log_out(request: Asked, service: Serving) -> Response:
    """The form has the session's second secret, because another site could send one without it."""
    cookie = browsers.cookie(request.headers, request.app.state.scheme)
    sent = (await _form(request)).get("csrf", "")
    if cookie is not None:
        if not hmac.compare_digest(sent.encode(), service.access.browsers.csrf(cookie).encode()):
            raise NotAllowed("this form belongs to another session. Reload the page")
        await run_in_threadpool(service.access.browsers.end, cookie)
    answer = RedirectResponse("/login", 303)
    keep_session(request, answer, "", 0)
    return answer


def shown_login(request: Request, next: str, error: RunrigError | None = None) -> Response:
    service: Service = request.app.state.service
    signs = service.access.in_browsers
    provider = None if signs is None else signs.host
    problem = _WRONG if isinstance(error, NotLoggedIn) else "" if error is None else f"{capital(error.message)}."
    status = 200 if error is None else status_of(error)
    page = html(request, "login.html", status=status, next=inside(next), problem=problem, provider=provider)
    page.headers.update({} if error is None else headers_of(error))
    return page


def inside(next: str) -> str:
    """Returns *next* if it is a page of this server, else the overview."""
    try:
        parts = urlsplit(next)
    except ValueError:
        return "/"
    good = next.startswith("/") and next.isprintable() and "\\" not in next and not (parts.scheme or parts.netloc)
    return next if good and browsers.is_page(parts.path) and not browsers.is_open(parts.path) else "/"


def keep_session(request: Request, answer: Response, cookie: str, seconds: int = int(LONGEST_S)) -> None:
    name = browsers.cookie_name(request.headers, request.app.state.scheme)
    keep_cookie(request, answer, name, cookie, seconds, strict=True)


async def _form(request: Request) -> Fields:
    body = await request.body()
    try:
        return {} if len(body) > LONGEST_FORM else fields_in(body, 20)
    except ValueError:
        return {}
