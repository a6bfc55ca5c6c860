"""The board over HTTP, and its changes as server-sent events.

All users with the same visibility share one look. Commits wake browsers, and the first that asks creates the look, at
most once per second. Changes between looks are kept for clients that reconnect.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple
from zlib import crc32

from anyio import to_thread
from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from runrig.domain.access import Permission
from runrig.domain.errors import Unavailable
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import Asked, Found, Serving
from runrig.http.staying import UNBUFFERED, Staying
from runrig.service.pulse import Pulse
from runrig.service.queries.board import Board, BoardNode
from runrig.service.queries.visibility import Sight, Visibility
from runrig.service.rights import STILL_S, seeing_as_much
from runrig.service.service import Service
from runrig.service.waiting import soon
from runrig.web.board import Record, Recorder, as_json, delta, layout, state
from runrig.web.pages.past import At, moment_of
from runrig.web.rendering import answer
from runrig.web.routes import router

LOOK_S = 1.0
"""Seconds between two looks."""
STREAM_S = 0.02
"""Seconds that each open stream adds to the interval between messages. A message costs about 0.2 ms, so all together
use 1 % of a processor.
"""
KEPT = 120
"""Number of looks whose changes are kept."""
MOST_STREAMS = 200
HEARTBEAT_S = 20.0
MOST_SIGHTS = 100
JSON = "application/json"


class Change(NamedTuple):
    """The change from *since* to *revision*. *message*: as sent to every client."""

    since: int
    revision: int
    message: bytes


@dataclass
class _Kept:
    """Board and changes for all users with the same visibility.

    *layout*: of *nodes* and *levels*; recomputed only when these change.
    """

    visibility: Visibility
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    looked: float = float("-inf")
    revision: int = -1
    layout: dict[str, Any] = field(default_factory=dict)
    nodes: Sequence[BoardNode] = ()
    levels: Sequence[str] = ()
    recorder: Recorder = field(default_factory=Recorder)
    records: dict[str, Record] = field(default_factory=dict)
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def sign(self) -> str:
        """Differs between users who see different pools. Part of the event ids that browsers send back."""
        return f"{crc32(repr(self.visibility.sight).encode()):08x}"

    def look(self, service: Service) -> None:
        """Comparing costs O(gangs that use something), sending O(changes)."""
        board = service.boards.board(self.visibility)
        if board.revision != self.revision:
            self._take(board)
        self.looked = time.monotonic()

    def _take(self, board: Board) -> None:
        found, shape = self.recorder.records(board), self.layout
        if not shape or board.nodes is not self.nodes or board.levels != self.levels:
            shape, self.nodes, self.levels = layout(board), board.nodes, board.levels
        if self.revision < 0 or shape["tag"] != self.layout["tag"] or board.revision < self.revision:
            self.changes.clear()
        else:
            nothing = {"r": board.revision, "from": self.revision, "+": [], "-": []}
            change = delta(self.records, found, self.revision, board.revision) or nothing
            self.changes.append(Change(self.revision, board.revision, self._message(board.revision, change)))
        self.revision, self.layout, self.records = board.revision, shape, found

    def _message(self, revision: int, change: dict[str, Any]) -> bytes:
        return f"id: {revision}.{self.sign}\ndata: {as_json(change)}\n\n".encode()

    def here(self) -> bytes:
        """Returns the start of a stream. The page may have loaded an older state."""
        return self._message(self.revision, {"r": self.revision, "from": self.revision, "+": [], "-": []})

    def since(self, revision: int) -> list[bytes] | None:
        """Returns the messages for changes after *revision*; None if some of them are no longer kept.

        The first may begin earlier, because a change contains new values, not differences. Empty for a revision after
        the last look.
        """
        if revision >= self.revision:
            return []
        later = [change for change in self.changes if change.revision > revision]
        return [change.message for change in later] if later and later[0].since <= revision else None


class Hub:
    """Everything except the looks runs in the event loop."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._sights: OrderedDict[Sight, _Kept] = OrderedDict()
        self.streams = 0

    @property
    def pace_s(self) -> float:
        """Returns the seconds between two messages of a stream."""
        return max(LOOK_S, STREAM_S * self.streams)

    async def now(self, visibility: Visibility) -> _Kept:
        """Returns what is visible, at most `LOOK_S` old."""
        sight = visibility.sight
        kept = self._sights.setdefault(sight, _Kept(visibility))
        self._sights.move_to_end(sight)
        while len(self._sights) > MOST_SIGHTS:
            self._sights.popitem(last=False)
        async with kept.lock:
            if time.monotonic() - kept.looked >= LOOK_S:
                await to_thread.run_sync(kept.look, self.service)
        return kept


Central = Annotated[Hub, Found(lambda request: request.app.state.hub)]
Beating = Annotated[Pulse, Found(lambda request: request.app.state.pulse)]
_READ = [needs(Permission.READ_CLUSTER)]


@router.get("/page/layout", dependencies=_READ)
async def get_layout(request: Asked, service: Serving, hub: Central, visibility: Seeing, at: At = "") -> Response:
    if at:
        return answer(request, await to_thread.run_sync(_then, service, at, visibility, "layout"), JSON)
    return answer(request, as_json((await hub.now(visibility)).layout).encode(), JSON)


@router.get("/page/state", dependencies=_READ)
async def get_state(request: Asked, service: Serving, hub: Central, visibility: Seeing, at: At = "") -> Response:
    if at:
        return answer(request, await to_thread.run_sync(_then, service, at, visibility, "state"), JSON)
    kept = await hub.now(visibility)
    found = {"r": kept.revision, "layout": kept.layout["tag"], "gangs": list(kept.records.values())}
    return answer(request, as_json(found).encode(), JSON)


def _then(service: Service, at: str, visibility: Visibility, what: str) -> bytes:
    with service.past.at(moment_of(service, at)) as then:
        board = then.boards.board(visibility)
    shape = layout(board)
    return as_json(shape if what == "layout" else state(board, shape["tag"])).encode()


@router.get("/page/live", dependencies=_READ)
async def live(
    request: Asked,
    hub: Central,
    pulse: Beating,
    stays: Staying,
    visibility: Seeing,
    since: Annotated[int, Query(ge=0, description="The revision that the page has")] = -1,
) -> Response:
    if hub.streams >= MOST_STREAMS:
        raise Unavailable(
            f"too many live pages ({MOST_STREAMS}). Close some, or reload this page to update it",
            {"retry_after_s": 10},
        )
    last, _, sign = request.headers.get("last-event-id", "").partition(".")
    known = int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else since
    stream = _stream(hub, pulse, seeing_as_much(stays, visibility), known, sign)
    return StreamingResponse(stream, media_type="text/event-stream", headers=UNBUFFERED)


async def _stream(
    hub: Hub, pulse: Pulse, sees: Callable[[], Visibility | None], known: int, sign: str
) -> AsyncIterator[bytes]:
    """*sign*: visibility for which *known* holds; "" if unknown.

    Ends when the user's visibility changes, so that the browser reconnects and starts over.
    """
    hub.streams += 1
    try:
        spoken, begun = time.monotonic(), False
        yield b"retry: 3000\n\n"
        with pulse.felt() as changed:
            changed.set()
            while (visibility := sees()) is not None:
                if await soon(changed, STILL_S):
                    kept = await hub.now(visibility)
                    messages = _messages(kept, known, sign, hub.service.stored) or ([] if begun else [kept.here()])
                    if messages:
                        yield b"".join(messages)  # Sending many messages costs no more than sending one.
                        spoken = time.monotonic()
                    known, sign, begun = kept.revision, kept.sign, True
                    if known < hub.service.stored:  # Perhaps there was a commit before it listened.
                        changed.set()
                    await asyncio.sleep(max(0.0, kept.looked + hub.pace_s - time.monotonic()))
                if time.monotonic() - spoken > HEARTBEAT_S:
                    yield b":\n\n"
                    spoken = time.monotonic()
    finally:
        hub.streams -= 1


def _messages(kept: _Kept, known: int, sign: str, stored: int) -> list[bytes]:
    """Returns the messages for a client that knows revision *known*, up to *stored*. Browsers send the last id when
    they reconnect.
    """
    changes = [] if known < 0 else kept.since(known) if known <= stored else None
    if changes is None or sign not in ("", kept.sign):
        return [f"id: {kept.revision}.{kept.sign}\nevent: reset\ndata: {{}}\n\n".encode()]
    return changes
