"""The door of the server: Host, Origin, token and size are checked before anything reads the request.

A page of another site can make a browser send requests here, and DNS rebinding can make it look like the same site; neither
knows the token, and neither may even try (Host and Origin must be the server's own).
"""

import hmac
import json
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runrig.domain.errors import NotAllowed

LARGEST_BODY = 2 * 1024 * 1024
"""Bytes.  A workflow file of more is refused by its reader anyway."""

OPEN_PATHS = ("/healthz", "/readyz")
SERVER_NAMES = ("127.0.0.1", "localhost", "[::1]")
TOO_LARGE = f"the request has more than {LARGEST_BODY // 1024 // 1024} MiB: send less"

_SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """*port*: the server's own, as it stands in Host and Origin."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(_with_port(port))
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = "/" + scope["path"].lstrip("/")  # the reference client calls some routes as //api/...
        scope = {**scope, "path": path, "raw_path": path.encode()}
        refusal = self._refusal(path, Headers(scope=scope))
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        await self._app(scope, _limited(receive), _secured(send))

    def _refusal(self, path: str, headers: Headers) -> tuple[int, str] | None:
        """(status, message) for a request that goes no further."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, f"Host {', '.join(hosts)!r} is not this server: call it as {min(self._hosts)}"
        if any(origin.lower() not in self._origins for origin in origins):
            return 403, f"pages of {', '.join(origins)!r} may not call this server"
        if path not in OPEN_PATHS and not self._knows_token(headers.getlist("authorization")):
            return 401, "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return 413, TOO_LARGE
        return None

    def _knows_token(self, values: list[str]) -> bool:
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)


def _with_port(port: int) -> Iterable[str]:
    for name in SERVER_NAMES:
        yield f"{name}:{port}"
        if port == 80:
            yield name


def _limited(receive: Receive) -> Receive:
    """A body whose length was not said is counted as it comes."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_BODY:
            raise HTTPException(413, TOO_LARGE)
        return message

    return counted


def _secured(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_SECURITY_HEADERS)
        await send(message)

    return with_headers


async def _refuse(send: Send, status: int, message: str) -> None:
    code = "USAGE" if status == 413 else NotAllowed.code
    body = json.dumps({"message": message, "error_code": code, "details": {}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    headers |= {"www-authenticate": "Bearer"} if status == 401 else {}
    headers |= {name.lower(): value for name, value in _SECURITY_HEADERS.items()}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
