"""The outermost layer of `serve`: passes requests to the leader's service, or reports that this process is a standby.

Anyone can request the health endpoints under any host name, because probes call them by address. So their responses
contain nothing else.
"""

from collections.abc import Callable
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from runrig.domain.errors import Unavailable
from runrig.http.problems import written
from runrig.wire import HealthAnswer

RETRY_AFTER_S = 1
ALIVE, READY = "/healthz", "/readyz"
BROKEN = "its last scheduling round failed; see its log"

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Leading(NamedTuple):
    """*app* None: this process does not lead, for the reason *why*; else *why* is what prevents the leader from
    working, if anything.
    """

    app: ASGIApp | None
    why: str | None


class Standby:
    """Passes requests to the leader's application, or answers them with 503.

    *standing* is called for every request.
    """

    def __init__(self, standing: Callable[[], Leading]) -> None:
        self._standing = standing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app, why = self._standing()
        path = scope.get("path", "")
        if scope["type"] == "websocket" and (app is None or path in (ALIVE, READY)):
            await send({"type": "websocket.close", "code": 1013})  # With status 403, before it has begun.
            return
        if path == ALIVE or (path == READY and why is None):
            status = "ok" if path == ALIVE else "ready"
            answer = Response(HealthAnswer(status=status).model_dump_json(), 200, _HEADERS, "application/json")
        elif path == READY or app is None:
            text = f"this server cannot answer: {why or BROKEN}"
            body, media_type = written(path, 503, text, Unavailable.code, {})
            more = {"Retry-After": str(RETRY_AFTER_S), "Connection": "close"}
            answer = Response(body, 503, _HEADERS | more, media_type)
        else:
            await app(scope, receive, send)
            return
        await answer(scope, receive, send)
