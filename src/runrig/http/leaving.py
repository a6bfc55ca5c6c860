"""Cancels long work if its client disconnects."""

import asyncio

from anyio import from_thread
from fastapi import Request

from runrig.service.mirror.leaving import Leaving

_watching: set[asyncio.Task[None]] = set()  # The event loop holds only weak references to tasks.


def leaving_of(request: Request) -> Leaving:
    """Returns a `Leaving` for the client of *request*. Called in the thread of a route whose body has been read."""
    leaving = Leaving()
    from_thread.run_sync(_watch, request, leaving)
    return leaving


def _watch(request: Request, leaving: Leaving) -> None:
    task = asyncio.get_running_loop().create_task(watch(request, leaving))
    _watching.add(task)
    task.add_done_callback(_watching.discard)


async def watch(request: Request, leaving: Leaving) -> None:
    """Ends when the client disconnects or has its response."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    leaving.leave()
