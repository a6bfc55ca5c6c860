"""Tells long work that its client has gone away."""

import asyncio

from anyio import from_thread
from fastapi import Request

from runrig.service.mirror.leaving import Leaving

_watching: set[asyncio.Task[None]] = set()  # the event loop alone would forget them


def leaving_of(request: Request) -> Leaving:
    """Knows when the client of *request* has gone away.  Asked in the thread of a route whose body has been read."""
    leaving = Leaving()
    from_thread.run_sync(_watch, request, leaving)
    return leaving


def _watch(request: Request, leaving: Leaving) -> None:
    task = asyncio.get_running_loop().create_task(watch(request, leaving))
    _watching.add(task)
    task.add_done_callback(_watching.discard)


async def watch(request: Request, leaving: Leaving) -> None:
    """Until the client goes away, or has its answer."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    leaving.leave()
