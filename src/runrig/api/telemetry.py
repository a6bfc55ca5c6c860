"""Gives every request an id, one log line and its metrics.

The id is the client's `x-request-id` if it is valid, else a new one. It appears in the response, in the log lines of
the request, and in the details of errors with status 500 and above. Neither log nor metrics contain the path, query,
headers or body, only the template of the route.
"""

import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runrig.service.runtime import logs
from runrig.service.runtime.metrics import Metrics

HEADER = "x-request-id"
NO_ROUTE = "(none)"
GONE = 499
"""The client disconnected before it got a response."""
_QUIET = ("/healthz", "/readyz", "/metrics")
_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))

_log = logging.getLogger(__name__)


class Telemetry:
    """Outermost, so that it also sees what the guard refuses."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, began_after = time.perf_counter(), 0.0
        status = GONE
        id = logs.request_id(Headers(scope=scope).get(HEADER))
        logs.enter(id)
        scope = {**scope, "state": dict(scope.get("state") or {})}

        async def noting(message: Message) -> None:
            nonlocal status, began_after
            if message["type"] == "http.response.start":
                status, began_after = message["status"], time.perf_counter() - began
                MutableHeaders(scope=message)[HEADER] = id
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            status = 500 if status == GONE else status  # The layer around this one handles it.
            raise
        finally:
            self._note(scope, status, began_after or time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        state = scope["state"]
        route = state.get("route") or NO_ROUTE
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self._metrics.answered(method, route, status, seconds)
        user = getattr(state.get("identity"), "user", None)
        level = logging.DEBUG if route in _QUIET and status < 400 else logging.INFO
        if _log.isEnabledFor(level):
            fields = logs.line("request", method=method, route=route, status=status, ms=seconds * 1000, user=user)
            _log.log(level, "%s", fields)
