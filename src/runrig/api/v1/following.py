"""Followers of events: those at the same revision with the same view get the same bytes, read and written once.

A view is a visibility and a filter. All are woken together, some time after a commit, and informed up to the same
revision. So they stay in step: a commit costs one read of the log and one text per view, and per follower only the
sending. The interval grows with the number of followers.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from anyio import CapacityLimiter, to_thread

from runrig.domain.shown.events import ClusterEvent
from runrig.service.pulse import Pulse
from runrig.service.queries.event_filter import EVERYTHING, EventFilter
from runrig.service.queries.visibility import Sight, Visibility
from runrig.service.rights import STILL_S
from runrig.service.service import Service
from runrig.service.waiting import soon
from runrig.wire.json import adapter

PAUSE_S = 0.25
"""Minimum seconds between two messages to a follower, so that a busy server sends pages instead of single events."""
FOLLOWER_S, LONGEST_PAUSE_S = 0.015, 4.0
"""Seconds that each follower adds to that time, up to a limit. A message takes about 0.15 ms; together they use 1 % of
a processor.
"""
READERS = 4
"""Threads that read the log for all followers."""
MOST_KEPT, LARGEST_KEPT = 1_000, 16 * 2**20
"""Maximum pages cached for late or slow readers, and their bytes."""

_readers = CapacityLimiter(READERS)


class Sent(NamedTuple):
    """The message to followers: visible events after one revision, up to *revision*; empty if there are none."""

    revision: int
    message: bytes


class Followers:
    """Everything but the reading runs in the event loop."""

    def __init__(self, service: Service, pulse: Pulse) -> None:
        self._service = service
        self._pulse = pulse
        self._waiting: set[asyncio.Event] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._pages: OrderedDict[tuple[Sight, EventFilter, int], asyncio.Task[Sent]] = OrderedDict()
        self._bytes = 0
        self.newest = 0
        """All followers are informed up to this revision."""
        self.made = 0
        """Number of pages read and written so far."""

    @property
    def pause_s(self) -> float:
        """Returns the seconds between two messages to one follower."""
        return min(LONGEST_PAUSE_S, max(PAUSE_S, FOLLOWER_S * len(self._waiting)))

    @contextmanager
    def joined(self) -> Iterator[asyncio.Event]:
        """Returns an event that is set when `newest` has changed, and at least every `STILL_S`; the waiting side clears
        it.
        """
        event = asyncio.Event()
        if not self._waiting:
            self._ticking = asyncio.create_task(self._tick())
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)
            if not self._waiting and self._ticking is not None:
                self._ticking.cancel()

    async def _tick(self) -> None:
        with self._pulse.felt() as changed:
            changed.set()
            while True:
                await soon(changed, STILL_S - self.pause_s)
                self.newest = self._service.stored
                for event in self._waiting:
                    event.set()
                await asyncio.sleep(self.pause_s)

    async def after(self, revision: int, visibility: Visibility, query: EventFilter = EVERYTHING) -> Sent:
        """Returns the events of *query* after *revision*, which is below `newest`, that *visibility* covers; only a
        page if there are many.
        """
        key = (visibility.sight, query, revision)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = asyncio.create_task(self._made(key, visibility))
        return await asyncio.shield(page)  # A follower that leaves must not cancel what others wait for.

    async def _made(self, key: tuple[Sight, EventFilter, int], visibility: Visibility) -> Sent:
        try:
            told = await to_thread.run_sync(self._read, key[2], visibility, key[1], limiter=_readers)
        except BaseException:
            self._pages.pop(key, None)
            raise
        self.made += 1
        self._bytes += len(told.message)
        while len(self._pages) > MOST_KEPT or self._bytes > LARGEST_KEPT:
            oldest, page = next(iter(self._pages.items()))
            if not page.done():  # Cancelled: either this caller, or a read that others wait for.
                break
            del self._pages[oldest]
            self._bytes -= len(page.result().message)
        return told

    def _read(self, after: int, visibility: Visibility, query: EventFilter) -> Sent:
        page = self._service.feed.page(after, visibility, newest=self.newest, query=query)
        if not page.events:
            return Sent(page.revision, b"")
        events = adapter(tuple[ClusterEvent, ...]).dump_json(page.events).decode()
        return Sent(page.revision, message("commit", page.revision, events))


def message(kind: str, id: int, data: str) -> bytes:
    """JSON contains no line breaks itself."""
    return f"id: {id}\nevent: {kind}\ndata: {data}\n\n".encode()
