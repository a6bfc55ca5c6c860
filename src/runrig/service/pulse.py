"""Wakes all readers after every commit. Many readers cost a commit as much as one."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from runrig.domain.workflow_status import WorkflowStatus
from runrig.service.service import Service


class Pulse:
    """Listens only while readers are waiting. Everything runs in the event loop except `_tell`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: set[asyncio.Event] = set()
        self._ear = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = False

    @contextmanager
    def felt(self) -> Iterator[asyncio.Event]:
        """Returns an event that is set after commits; the waiting side clears it."""
        event = asyncio.Event()
        if not self._waiting:
            self._loop, self._told = asyncio.get_running_loop(), False
            self._ear.enter_context(self._service.listening(self._tell))
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)
            if not self._waiting:
                self._ear.close()

    def _tell(self, _: WorkflowStatus | None) -> None:
        """Runs in the thread of a commit."""
        if self._told or self._loop is None:
            return
        self._told = True
        with suppress(RuntimeError):  # The event loop is closed.
            self._loop.call_soon_threadsafe(self._beat)

    def _beat(self) -> None:
        self._told = False
        for event in self._waiting:
            event.set()
