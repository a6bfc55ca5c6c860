"""Waits for a change without holding a thread and without polling."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.concurrency import run_in_threadpool

from runrig.domain.workflow_status import WorkflowStatus
from runrig.service.rights import STILL_S
from runrig.service.service import Service

HEARTBEAT_S = 15.0
"""Seconds without data after which a stream sends something, because proxies end responses that are silent for long."""


@contextmanager
def changes(service: Service, workflow: str) -> Iterator[asyncio.Event]:
    """Returns an event that is set after each commit that changes *workflow*; the waiting side clears it."""
    event = asyncio.Event()
    with _listening(service, workflow, lambda _: event.set()):
        yield event


@contextmanager
def _listening(service: Service, workflow: str, hear: Callable[[WorkflowStatus | None], None]) -> Iterator[None]:
    """Calls *hear* in the event loop with the reports of `Transactor.listening`."""
    loop = asyncio.get_running_loop()

    def tell(status: WorkflowStatus | None) -> None:
        with suppress(RuntimeError):  # The event loop is closed.
            loop.call_soon_threadsafe(hear, status)

    with service.listening(tell, workflow):
        yield


async def soon(event: asyncio.Event, timeout_s: float) -> bool:
    """Whether *event* is set within *timeout_s*; clears it."""
    try:
        async with asyncio.timeout(timeout_s):  # In Python 3.11, `wait_for` can lose a cancellation.
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True


async def statuses(service: Service, id: str, timeout_s: float) -> AsyncIterator[WorkflowStatus]:
    """Yields the current status of the workflow *id*, then each new one, until the time is up or it has ended.

    If nothing changes, it yields the same status again, so that the caller can check whether the user may still wait.
    Queries the store only once: each commit reports the new status. Raises NotFound.
    """
    end = time.monotonic() + timeout_s
    heard: asyncio.Queue[WorkflowStatus | None] = asyncio.Queue()
    with _listening(service, id, heard.put_nowait):
        status = None
        while True:
            if status is None:
                status = await run_in_threadpool(service.workflow_queries.status, id)
            yield status
            left_s = end - time.monotonic()
            if status.finished or left_s <= 0:
                return
            with suppress(TimeoutError):
                status = await asyncio.wait_for(heard.get(), min(left_s, STILL_S))
