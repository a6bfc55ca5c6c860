"""The guard in front of every route: checks Host, Origin, token and size before the request is parsed.

A page of another site can make a browser send requests, and with DNS rebinding it can look like the same site. It does
not know the token, and cannot try one either, because Host and Origin must be the server's own.
"""

import ipaddress
from collections.abc import Collection
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runrig.domain.access import Identity
from runrig.domain.code import POD_CODE
from runrig.domain.errors import InvalidInput, NotAllowed, NotFound, NotLoggedIn, RunrigError
from runrig.domain.statuses import headers_of, status_of
from runrig.http import browsers
from runrig.http.body_limits import limit_of, too_large
from runrig.http.crowd import Guest
from runrig.http.problems import OURS, written
from runrig.http.routing import source
from runrig.http.upgrade import SOCKETS
from runrig.service.access.access import Access

OPEN_PATHS = (
    "/healthz",
    "/readyz",
    POD_CODE,
    "/api/auth/login",
    "/api/auth/jwt/access_token",
    "/api/auth/oidc/device",
    "/api/auth/oidc/token",
    "/api/v1/sign-in",
    "/api/v1/sign-in/code",
    "/api/v1/sign-in/device",
    "/api/v1/sign-in/device/token",
    "/api/v1/sign-in/renewal",
)
"""Pods fetch code with a token of their own; the others after that are for logging in: the client has no header yet, and its
secret is in the body.
"""
METRICS = "/metrics"
"""Monitors in a cluster request it by the address of a pod. A page under another name has no token to send with it."""
USER_HEADER = "x-osmo-user"
"""The only header in which the osmo client names its user after `login --method dev`."""
_PASSED_ON = ("forwarded", "via", "x-forwarded-", "x-original-", "x-real-ip", "origin", "sec-fetch-")
"""Prefixes of headers that proxies and browsers add, and the osmo client does not."""
SERVER_NAMES = ("127.0.0.1", "localhost", "[::1]")

_SECURITY = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}
"""Headers of every response."""
_OF_ROUTES = (b"cache-control", b"content-security-policy", b"referrer-policy")
"""Headers that a route may replace."""


class Guard:
    """*access*: knows users and tokens. *hosts*: the server's own names as in the Host header; *scheme*: of its own pages.

    Routes find the identity in ``request.state.identity``, and the cookie in ``request.state.cookie`` if the client
    sent one instead of a token.
    """

    def __init__(self, app: ASGIApp, *, access: Access, hosts: Collection[str], scheme: str) -> None:
        self._app = app
        self._access = access
        self._scheme = scheme
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(f"{scheme}://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = "/" + scope["path"].lstrip("/")  # The osmo client calls some routes as //api/...
        state = scope.setdefault("state", {})
        guest: Guest | None = state.get("guest")
        headers, secret = Headers(scope=scope), ""
        try:
            if path != METRICS or "authorization" not in headers:
                self._check_place(headers)
            if guest is not None:
                guest.asks(source(scope))
            if path not in OPEN_PATHS and not browsers.is_open(path):
                cookie = None if "authorization" in headers else browsers.cookie(headers, self._scheme)
                state["cookie"] = cookie
                method, address = scope.get("method", ""), source(scope)
                if cookie is not None:
                    secret, receive = await browsers.second_secret(method, path, headers, receive)
                state["identity"] = identity = self._identity(method, path, headers, address, cookie, secret)
                if guest is not None:
                    guest.shows(identity.user)
            _check_path(path, scope.get("raw_path", b""))
            if scope["type"] == "websocket" and not path.startswith(SOCKETS):
                raise NotFound(f"no WebSocket at {path!r:.200}. WebSockets are below {' or '.join(SOCKETS)}")
        except RunrigError as error:
            if isinstance(error, NotLoggedIn) and browsers.is_page(path) and browsers.wants_page(headers):
                await _send_to_login(scope, receive, send, path)
            else:
                await _refuse(scope, receive, send, path, error, status_of(error))
            return
        length, limit = headers.get("content-length", "0"), limit_of(path)
        if not length.isdecimal() or len(length) > 20 or int(length) > limit:
            await _refuse(scope, receive, send, path, InvalidInput.one(too_large(limit)), 413)
            return
        scope = {**scope, "path": path, "raw_path": path.encode()}
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, _limited(receive, limit), _secured(send))
        finally:  # The layers around this one do not see the scope in which the router notes its route.
            state["route"] = getattr(scope.get("route"), "path", None)

    def _identity(
        self, method: str, path: str, headers: Headers, address: str, cookie: str | None, secret: str
    ) -> Identity:
        """*secret*: the second secret of a session, as sent. Raises NotLoggedIn, NotAllowed, TooMany."""
        names = headers.getlist(USER_HEADER)
        if cookie is not None:
            if browsers.counts_alone(method, path, headers):
                return self._access.browsers.visiting(cookie, None)
            browsers.check_own_page(headers)
            return self._access.browsers.visiting(cookie, secret)
        if "authorization" in headers or len(names) != 1:
            identity = self._access.authentication.authenticate(_bearer(headers), address)
            named = "" if path.startswith(OURS) else ", ".join(names)
            return self._access.authentication.in_name_of(named, identity) if named else identity
        return self._access.dev_login.enter(names[0], direct=_is_direct(headers, address))

    def _check_place(self, headers: Headers) -> None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise NotAllowed(f"Host {', '.join(hosts)!r:.80} is not a name of this server. Use {min(self._hosts)}")
        if any(origin.lower() not in self._origins for origin in origins):
            raise NotAllowed(f"pages of {', '.join(origins)!r:.80} may not call this server")


def _check_path(path: str, raw: bytes) -> None:
    """Raises NotFound for a path that a proxy could interpret differently."""
    written = raw.lower()
    if (
        "\\" in path
        or "//" in path
        or "\ufffd" in path
        or any(not character.isprintable() for character in path)
        or any(segment in (".", "..") for segment in path.split("/"))
        or b"%2f" in written
    ):
        raise NotFound(
            f"unknown path {path!r:.200}. A name in a path cannot contain a slash, a backslash or control characters, or be '.' or '..', "
            "even if encoded"
        )


def _is_direct(headers: Headers, address: str) -> bool:
    """Whether a program on this machine sent the request for itself; browsers and proxies do not."""
    between = any(name.startswith(_PASSED_ON) for name in headers)
    try:
        return ipaddress.ip_address(address).is_loopback and not between
    except ValueError:
        return False


def _bearer(headers: Headers) -> str | None:
    values = headers.getlist("authorization")
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None


def own_names(port: int) -> list[str]:
    """Returns values of Host with which this machine reaches its own server."""
    return [*(f"{name}:{port}" for name in SERVER_NAMES), *(SERVER_NAMES if port == 80 else ())]


def _limited(receive: Receive, limit: int) -> Receive:
    """Counts the bytes of a body of unknown length as it arrives."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, too_large(limit))
        return message

    return counted


def _secured(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            sent = [pair for pair in message["headers"] if pair[0] in _OF_ROUTES or pair[0] not in _SECURITY]
            said = {name for name, _ in sent}
            ours = [pair for pair in _SECURITY.items() if pair[0] not in said]
            message = {**message, "headers": [*sent, *ours]}
        await send(message)

    return with_headers


async def _send_to_login(scope: Scope, receive: Receive, send: Send, path: str) -> None:
    """Redirects a browser without a session to the login, and afterwards to *path*."""
    query = scope.get("query_string", b"")
    asked = path + (f"?{query.decode('latin-1')}" if query else "")
    place = "/login" if asked == "/" else f"/login?next={quote(asked, safe='/')}"
    await RedirectResponse(place, 303, {"connection": "close"})(scope, receive, _secured(send))


async def _refuse(scope: Scope, receive: Receive, send: Send, path: str, error: RunrigError, status: int) -> None:
    """Browsers get the error page of `web`."""
    headers = {**headers_of(error), "connection": "close"}
    page = getattr(scope["app"].state, "problem_page", None) if scope["type"] == "http" else None
    if page is not None and browsers.is_page(path) and browsers.wants_page(Headers(scope=scope)):
        shown: Response = page(Request(scope), status, error.message, headers)
    else:
        body, media_type = written(path, status, error.message, error.code, error.details)
        shown = Response(body, status, headers, media_type=media_type)
    await shown(scope, receive, _secured(send))
