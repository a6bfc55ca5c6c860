"""Live pages: how often their script asks, and answers that are shared by many users.

However many tabs are open, what they ask for takes a small part of one processor: each is told how long to pause, and what all who have
the same roles see is made once for all of them.
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
"""The script asks with it.  The answer has what is live on the page, and nothing about the person who asks."""
PAUSE = "x-page-pause"
"""In the answer: seconds until the script may ask again."""
LEAST_S, MOST_S = 2.0, 30.0
PART = 0.015
"""Of a processor, for the requests of all tabs together; as much again for what is made for all who have the same roles."""
REQUEST_S = 0.0015
"""Fixed cost of a request, without its content."""
MOST_KEPT = 50


def is_refresh(request: Request) -> bool:
    return HEADER in request.headers


def pause_s(streams: int, cost_s: float) -> float:
    """How long each of *streams* tabs pauses after an answer that took *cost_s* of a processor."""
    return min(MOST_S, max(LEAST_S, streams * (REQUEST_S + cost_s) / PART))


def own_pause_s(request: Request) -> float:
    """The same after an answer that was made for this request alone, in the thread that is making it."""
    cost_s = time.thread_time() - getattr(request.state, "began", time.thread_time())
    return pause_s(request.app.state.hub.streams, cost_s)


@dataclass
class _Answer:
    """*good_until*: afterwards it is created again."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    good_until: float = float("-inf")


_Key = tuple[str, bytes, frozenset[Grant], bool]
"""Path, query, roles, and whether the browser reads gzip."""


class Refreshes:
    """Answers to scripts, shared by who has the same roles.  All but the making happens in the event loop.

    *streams*: how many tabs are live.
    """

    def __init__(self, streams: Callable[[], int]) -> None:
        self._streams = streams
        self._kept: OrderedDict[_Key, _Answer] = OrderedDict()
        self.made = 0
        """Number of shared answers created so far."""

    async def answer(self, request: Request, make: Callable[[], Response]) -> Response:
        """What *make* returns, in a thread.  A script gets what was made for somebody with the same roles, if that is new enough.

        What *make* puts into an answer to a script may depend on the address and on roles alone; where it depends on the person too,
        it sets `request.state.personal`, and the answer is not shared.
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
        """Brings *kept* up to date, or returns an answer that is not to be shared."""

        def timed() -> tuple[Response, float]:
            began = time.thread_time()
            return make(), time.thread_time() - began

        made, cost_s = await to_thread.run_sync(timed)
        if made.status_code != 200 or getattr(request.state, "personal", False):
            return made
        self.made += 1
        kept.body, kept.headers = bytes(made.body), dict(made.headers)
        kept.good_until = time.monotonic() + max(LEAST_S, cost_s / PART)
        return None


def shared(draw: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
    """For a route that draws a page of the parameter *request*: scripts that refresh it are answered as `Refreshes.answer` has it."""

    @wraps(draw)
    async def answer(**asked: Any) -> Response:
        request: Request = asked["request"]
        refreshes: Refreshes = request.app.state.refreshes
        return await refreshes.answer(request, lambda: draw(**asked))

    return answer
