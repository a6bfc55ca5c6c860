"""WebSockets that carry the data of sessions in tasks. The guard allows WebSockets only on these paths.

There are two protocols. The osmo client's: plain bytes; the terminal size as JSON first, and after RESIZE later; no
exit code; and control connections, which announce the keys of further connections. And runrig's own, with frames, which
can carry an exit code.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from dataclasses import replace
from os import terminal_size
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from runrig.domain import statuses
from runrig.domain.errors import InvalidInput, NotFound, RunrigError, Unavailable
from runrig.http import failures, problems
from runrig.http.upgrade import SOCKETS
from runrig.ports.backend import ERR, Passage
from runrig.service.commands.sessions import SessionKind, Ticket
from runrig.service.runtime import logs
from runrig.service.runtime.session_metrics import NO_KEY, NOT_REACHED
from runrig.service.service import Service
from runrig.service.waiting import changes, soon
from runrig.spec import strict_json

RESIZE = b"\x00RESIZE:"
STDIN, END, TERMINAL = 0, 3, 4
"""The first byte of runrig's frames, in addition to OUT and ERR."""
FIRST_MESSAGE_S = 10.0
ANNOUNCED_S = 5.0
"""Seconds to wait for an announcement, because a connection may arrive before it."""
LOOK_S = 2.0
"""Maximum seconds after which a session with a revoked token ends."""
IDLE_S = 3600.0
_LONGEST_SIDE = 9999
_LONGEST_REASON = 120
_NORMAL, _POLICY, _FAILED = 1000, 1008, 1011

_log = logging.getLogger(__name__)


class Over(NamedTuple):
    """Ends a session. *code*: of the WebSocket; None: the client disconnected."""

    code: int | None
    why: str


_ENDED = Over(_NORMAL, "it has ended")
_GONE = Over(None, "the client disconnected")


async def connect(socket: WebSocket) -> None:
    """Serves a client with the key of a session."""
    service: Service = socket.app.state.service
    try:
        ticket = await _ticket(service, socket)
    except RunrigError as error:
        service.metrics.sessions.refused(NO_KEY)
        status = statuses.status_of(error)
        body, media_type = problems.written(socket.url.path, status, error.message, error.code, error.details)
        await socket.send_denial_response(Response(body, status, media_type=media_type))
        return
    began, over = time.monotonic(), Over(_FAILED, "it failed")
    try:
        await socket.accept()
        session = Session(socket, service, ticket)
        with nullcontext() if ticket.is_announced else service.metrics.sessions.session(ticket.kind.value):
            over = await (session.control() if ticket.is_control else session.carry())
        if over.code is not None:
            with suppress(WebSocketDisconnect, OSError, RuntimeError):  # The client has just disconnected.
                await socket.close(over.code, over.why.encode()[:_LONGEST_REASON].decode(errors="ignore"))
    finally:
        service.sessions.leave(ticket)
        about = {"kind": ticket.kind.value, "task": ticket.name, "user": ticket.identity.user}
        _log.info("%s", logs.line("session_ended", **about, s=time.monotonic() - began, why=over.why))


_OURS, _THEIRS = SOCKETS
ROUTES = (
    WebSocketRoute(_OURS + "{key}", connect),
    WebSocketRoute(_THEIRS + "{kind}/{id}/client/{key}", connect),
)


async def _ticket(service: Service, socket: WebSocket) -> Ticket:
    """Raises NotFound if the user does not have such a ticket."""
    path, identity = socket.path_params, socket.state.identity
    about = (path["kind"], path["id"]) if "kind" in path else None
    end = time.monotonic() + ANNOUNCED_S
    while True:
        ticket = service.sessions.take(path["key"], identity, about)
        if ticket is not None:
            return ticket
        if time.monotonic() > end or not service.sessions.expects(identity, about):
            break
        await asyncio.sleep(0.05)  # Its control connection is about to announce it.
    raise NotFound("unknown or expired session key. A key works once, for one minute, for the user who requested it")


class Session:
    """One connection with its ticket."""

    def __init__(self, socket: WebSocket, service: Service, ticket: Ticket) -> None:
        self._socket = socket
        self._service = service
        self._ticket = ticket
        self._active_at = time.monotonic()
        self._carried = service.metrics.sessions.carried(ticket.kind.value)

    async def control(self) -> Over:
        """Accepts announcements while the task runs and the client is connected."""
        return await _first(self._announcements, self._watch)

    async def carry(self) -> Over:
        """Carries data in both directions."""
        try:
            ticket = self._ticket = await self._sized()
            passage = await self._service.sessions.passage(ticket)
        except RunrigError as error:
            self._service.metrics.sessions.refused(NOT_REACHED)
            await self._tell_end(error)
            return Over(_FAILED, error.message)
        except WebSocketDisconnect:
            return _GONE
        ended = None
        try:
            over = await _first(lambda: self._outward(passage), lambda: self._inward(passage), self._watch)
        except RunrigError as error:
            over = Over(_FAILED, error.message)
        finally:
            ended = await passage.close()
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            if over.code is not None and ended is not None:
                await self._tell_end(ended)
            elif over.code is not None:
                await self._tell_end(Unavailable(over.why))
        return over

    # ------------------------------------------------------------ the parts of a session, each until it is over

    async def _outward(self, passage: Passage) -> Over:
        framed, files = self._ticket.framed, self._ticket.kind is SessionKind.RSYNC
        while (found := await passage.read()) is not None:
            channel, data = found
            self._active_at = time.monotonic()
            self._carried.from_task(len(data))
            if framed:
                await self._socket.send_bytes(bytes((channel,)) + data)
            elif channel != ERR or not files:  # Error messages of rsync are not part of its protocol.
                await self._socket.send_bytes(data)
        return _ENDED

    async def _inward(self, passage: Passage) -> Over:
        while True:
            data = await self._received()
            try:
                await (self._frame if self._ticket.framed else self._plain)(passage, data)
            except InvalidInput as error:
                return Over(_POLICY, error.message)

    async def _announcements(self) -> Over:
        while True:
            data = await self._received()
            try:
                self._service.sessions.announce(self._ticket, data)
            except RunrigError as error:
                return Over(_POLICY, error.message)

    async def _watch(self) -> Over:
        sessions, ticket = self._service.sessions, self._ticket
        with changes(self._service, ticket.task.workflow) as changed:
            changed.set()
            while True:
                if await soon(changed, LOOK_S) and not await run_in_threadpool(sessions.runs, ticket):
                    return Over(_NORMAL, f"{ticket.task.workflow}/{ticket.task.name} is no longer running")
                if why := sessions.over(ticket):
                    return Over(_POLICY, why)
                if not ticket.is_control and time.monotonic() - self._active_at > IDLE_S:
                    return Over(_POLICY, f"no data for {IDLE_S:.0f} seconds")

    # ------------------------------------------------------------ messages

    async def _received(self) -> bytes:
        """Returns the next message, text as UTF-8. Raises WebSocketDisconnect at the end."""
        message = await self._socket.receive()
        if message["type"] != "websocket.receive":
            raise WebSocketDisconnect
        self._active_at = time.monotonic()
        data: bytes | None = message.get("bytes")
        return (message.get("text") or "").encode() if data is None else data

    async def _plain(self, passage: Passage, data: bytes) -> None:
        program = self._ticket.program
        if data.startswith(RESIZE) and program is not None and program.terminal is not None:
            await passage.resize(_size(data.removeprefix(RESIZE), "Rows", "Cols"))
        else:
            await self._write(passage, data)

    async def _frame(self, passage: Passage, data: bytes) -> None:
        kind = data[0] if data else None
        if kind == STDIN:
            await self._write(passage, data[1:])
        elif kind == TERMINAL:
            await passage.resize(_size(data[1:], "rows", "columns"))
        else:
            raise InvalidInput.one(
                f"invalid message type {kind}. Use {STDIN} for stdin, {TERMINAL} for a terminal size"
            )

    async def _write(self, passage: Passage, data: bytes) -> None:
        self._carried.to_task(len(data))
        await passage.write(data)

    async def _sized(self) -> Ticket:
        """Returns the ticket with the terminal size, which the osmo client sends first. Raises InvalidInput,
        WebSocketDisconnect.
        """
        ticket = self._ticket
        if ticket.kind is not SessionKind.EXEC or ticket.framed or ticket.program is None:
            return ticket
        try:
            async with asyncio.timeout(FIRST_MESSAGE_S):
                first = await self._received()
        except TimeoutError:
            raise InvalidInput.one("the first message must be the terminal size, but none came") from None
        return replace(ticket, program=replace(ticket.program, terminal=_size(first, "Rows", "Cols")))

    async def _tell_end(self, end: tuple[int, str] | RunrigError) -> None:
        """*end*: the exit code and a message, or why there is none."""
        message = end.message if isinstance(end, RunrigError) else end[1]
        if self._ticket.framed:
            await self._socket.send_bytes(bytes((END,)) + json.dumps(_end_as_json(end)).encode())
        elif self._ticket.kind is SessionKind.EXEC and message:
            await self._socket.send_bytes(f"{message}\r\n".encode())


def _end_as_json(end: tuple[int, str] | RunrigError) -> dict[str, object]:
    if isinstance(end, RunrigError):
        return problems.problem(statuses.status_of(end), end.message, end.code, failures.details_of(end))
    return {"exit_code": end[0], "message": end[1]}


async def _first(*parts: Callable[[], Coroutine[Any, Any, Over]]) -> Over:
    """Returns the result of the first of *parts* to finish, after stopping the others."""
    tasks = [asyncio.create_task(part()) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    except (WebSocketDisconnect, OSError):
        return _GONE
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _size(text: bytes, rows: str, columns: str) -> terminal_size:
    """Reads a terminal size from JSON with the keys *rows* and *columns*, limited to what a terminal can have.

    Raises InvalidInput.
    """
    try:
        found = strict_json.read(text)
        sides = int(found[columns]), int(found[rows])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise InvalidInput.one(f'invalid terminal size. Use {{"{rows}": 24, "{columns}": 80}}') from None
    return terminal_size([min(max(each, 1), _LONGEST_SIDE) for each in sides])
