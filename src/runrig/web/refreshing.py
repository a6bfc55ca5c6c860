"""Live pages: how often their script polls, and responses shared by many users.

All open tabs together use a small part of one processor. Each response includes the pause until the next, and what all users with
the same roles see is rendered once.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from anyio import to_thread
from fastapi import Request, Response

from runrig.domain.access import Grant, Identity

HEADER = "x-page-refresh"
"""Sent by the script. The response has the live parts of the page, and nothing about the user."""
PAUSE = "x-page-pause"
"""In the response: seconds until the script may poll again."""
LEAST_S, MOST_S = 2.0, 30.0
PART = 0.015
"""Share of a processor for the requests of all tabs, and again as much for shared responses."""
REQUEST_S = 0.0015
"""Fixed cost of a request in seconds, without its content."""
MOST_KEPT = 50


def is_refresh(request: Request) -> bool:
    return HEADER in request.headers


def pause_s(streams: int, cost_s: float) -> float:
    """Returns how long each of *streams* tabs pauses after a response that took *cost_s* seconds of a processor."""
    return min(MOST_S, max(LEAST_S, streams * (REQUEST_S + cost_s) / PART))


def own_pause_s(request: Request) -> float:
    """The same for a response rendered only for this request, in the current thread."""
    cost_s = time.thread_time() - getattr(request.state, "began", time.thread_time())
    return pause_s(request.app.state.hub.streams, cost_s)


@dataclass
class _Answer:
    """*good_until*: after that it is rendered again."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    good_until: float = float("-inf")


_Key = tuple[str, bytes, frozenset[Grant], bool]
"""Path, query, roles, and whether the browser accepts gzip."""


class Refreshes:
    """Responses to scripts, shared by users with the same roles. Everything except rendering runs in the event loop.

    *streams*: number of live tabs.
    """

    def __init__(self, streams: Callable[[], int]) -> None:
        self._streams = streams
        self._kept: OrderedDict[_Key, _Answer] = OrderedDict()

    async def answer(self, request: Request, make: Callable[[], Response]) -> Response:
        """Returns the result of *make*, run in a thread. A script gets a recent response for the same roles, if there
        is one.

        *make* must depend only on the address and roles. If it depends on the user, it sets `request.state.personal`,
        and the response is not shared.
        """
        if not is_refresh(request):
            return await to_thread.run_sync(make)
        kept = self._of(request)
        async with kept.lock:
            if time.monotonic() >= kept.good_until:
                own = await self._make(kept, request, make)
                if own is not None:
                    return own
        left = kept.good_until - time.monotonic()
        pause = f"{max(left, self._streams() * REQUEST_S / PART):.2f}"
        return Response(kept.body, headers=kept.headers | {PAUSE: pause})

    def _of(self, request: Request) -> _Answer:
        identity: Identity = request.state.identity
        zips = "gzip" in request.headers.get("accept-encoding", "")
        key = (request.url.path, request.scope["query_string"], frozenset(identity.grants), zips)
        found = self._kept.setdefault(key, _Answer())
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _make(self, kept: _Answer, request: Request, make: Callable[[], Response]) -> Response | None:
        """Updates *kept*, or returns a response that must not be shared."""

        def timed() -> tuple[Response, float]:
            began = time.thread_time()
            return make(), time.thread_time() - began

        made, cost_s = await to_thread.run_sync(timed)
        if made.status_code != 200 or getattr(request.state, "personal", False):
            return made
        kept.body, kept.headers = bytes(made.body), dict(made.headers)
        kept.good_until = time.monotonic() + max(LEAST_S, cost_s / PART)
        return None


def shared(draw: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
    """Decorates a route that renders a page for *request*: refreshes by script go through `Refreshes.answer`."""

    @wraps(draw)
    async def answer(**asked: Any) -> Response:
        request: Request = asked["request"]
        refreshes: Refreshes = request.app.state.refreshes
        return await refreshes.answer(request, lambda: draw(**asked))

    return answer
