"""Waiting for something to change without holding a thread, and without asking again and again."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from runrig.domain.workflows import WorkflowStatus
from runrig.service.service import Service


@contextmanager
def changes(service: Service, workflow: str) -> Iterator[asyncio.Event]:
    """An event that is set after each commit that changes *workflow*; whoever waits clears it."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(event.set)

    with service.listening(tell, workflow):
        yield event


async def soon(event: asyncio.Event, timeout_s: float) -> bool:
    """Whether *event* was set within *timeout_s*; it is cleared."""
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
    event.clear()
    return True


async def statuses(service: Service, id: str, timeout_s: float) -> AsyncIterator[WorkflowStatus]:
    """The status now and after each commit that touches it, until the time is up or it has ended.  Raises NotFound."""
    end = time.monotonic() + timeout_s
    with changes(service, id) as changed:
        while True:
            status = await asyncio.to_thread(service.stories.status, id)
            yield status
            left_s = end - time.monotonic()
            if status.finished or left_s <= 0:
                return
            await soon(changed, left_s)
