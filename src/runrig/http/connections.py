"""HTTP/1.1 with limits: a request arrives whole, in time and with one possible reading, or its connection ends.

The parser is written in C. It gets one request at a time, from bytes that this module and `heads` count out. On its own it
would read as far as it can, without a limit, and would not report where a request ended.
"""

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import unquote

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from runrig.domain.errors import InvalidInput, Unavailable
from runrig.http.crowd import AT_ONCE, Crowd, Guest
from runrig.http.heads import LARGEST_HEAD, Unreadable, as_parsed, body_of, end_of_head
from runrig.http.lingering import Lingering
from runrig.http.problems import written
from runrig.http.until_close import UntilClose
from runrig.http.upgrade import LARGEST_MESSAGE, Socket, asks_for_socket

READ_TIMEOUT_S = 30.0


def config(
    app: ASGIApp,
    *,
    crowd: Crowd,
    read_timeout_s: float = READ_TIMEOUT_S,
    proxies: str | None = None,
    **more: Any,
) -> uvicorn.Config:
    """Returns the settings with which *app* serves connections accepted by the door of *crowd*. *proxies*: addresses
    trusted to name the client.

    *more*: further options of uvicorn.
    """

    class Connection(LimitedConnection):
        read_timeout = read_timeout_s
        guests = crowd.guests

    # Without the name of the program, because attackers need not know it.
    return uvicorn.Config(
        app,
        http=Connection,
        loop="asyncio",
        ws=Socket,
        ws_max_size=LARGEST_MESSAGE,
        ws_per_message_deflate=False,
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies or "",
        server_header=False,
        log_config=None,
        access_log=False,
        backlog=AT_ONCE,
        **more,
    )


class _Awaits(Enum):
    """The part of a request that has not arrived yet."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()


class LimitedConnection(HttpToolsProtocol):
    """*read_timeout*: seconds from the first byte of a request to its last, and from the start of a connection to its
    first byte.
    """

    read_timeout: ClassVar[float] = READ_TIMEOUT_S
    guests: ClassVar[Mapping[int, Guest]] = {}
    _guest: Guest | None = None
    _deadline: asyncio.TimerHandle | None = None
    _refused = False
    _awaits = _Awaits.HEAD
    _left: int | None = 0
    """Bytes of the body that have not arrived; None: it is chunked."""
    _around = 0
    """Bytes of a chunked body since its last byte of data: sizes, extensions, trailers."""
    _looked_at = 0
    """Number of bytes known not to contain the end of the head."""
    _head_ended = _ended = _keeps_alive = False

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._unread = bytearray()

    # ---------------------------------------------------------------- what the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # only TCP comes here
        super().connection_made(Lingering(transport, self._is_sending, self.read_timeout))
        self._guest = self.guests.get(transport.get_extra_info("socket").fileno())
        if self._guest is not None:
            self._guest.end = self._asked_to_leave
            self.app_state = {**self.app_state, "guest": self._guest}
            if self._guest.refusal is not None:
                self._guest.leaves()
                self._end(503, Unavailable.code, self._guest.refusal)
                return
        self._hurry()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._unread += data
            self._read()

    # ---------------------------------------------------------------- reading

    def _read(self) -> None:
        """Reads the bytes received: the rest of one request, and after its response the next one."""
        try:
            while self._unread and self._reads_on():
                pass
        except (Unreadable, httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._end(
                400,
                InvalidInput.code,
                "invalid HTTP/1.1 request. Check its request line and headers (at most 64 KiB)",
            )
            return
        if self._awaits is _Awaits.BODY or (self._unread and self._awaits is _Awaits.HEAD):
            self._hurry()
            return
        self._forget()
        if self._awaits is _Awaits.HEAD and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _reads_on(self) -> bool:
        """Reads a head, or the available part of a body; returns False if more bytes are needed."""
        match self._awaits:
            case _Awaits.NOTHING:
                self.flow.pause_reading()
                return False
            case _Awaits.BODY:
                self._read_body()
                return True
            case _Awaits.HEAD:
                return self._read_head()

    def _read_head(self) -> bool:
        end = end_of_head(self._unread, self._looked_at)
        self._looked_at = 0 if end else len(self._unread)
        if end is None:
            return False
        head = bytes(self._unread[:end])
        del self._unread[:end]
        self._forget()
        self._head_ended = self._ended = False
        self.parser.feed_data(as_parsed(head))
        if asks_for_socket(head):
            self._hand_over()
            return False
        self._left = self._begin()
        self._awaits, self._around = _Awaits.BODY, 0
        if self._ended:
            self._whole()
        return True

    def _hand_over(self) -> None:
        """Hands the connection over to the WebSocket implementation."""
        if body_of("1.1", self.headers) != 0:
            raise Unreadable
        self._awaits = _Awaits.NOTHING
        self.connections.discard(self)
        assert isinstance(self.transport, Lingering), "as `connection_made` has it"
        plain = self.transport.plain
        if self._guest is not None:
            self._guest.end = lambda *_: plain.abort()
        socket = Socket(config=self.config, server_state=self.server_state, app_state=self.app_state)
        socket.connection_made(plain)
        lines = [b"GET %s HTTP/1.1" % self.url, b"upgrade: websocket"]
        lines += [b"%s: %s" % pair for pair in self.headers]
        socket.data_received(b"\r\n".join([*lines, b"", b""]) + bytes(self._unread))
        self._unread.clear()
        plain.set_protocol(socket)

    def _begin(self) -> int | None:
        """Starts the request whose head was parsed. Returns the bytes of its body, None if it is chunked."""
        version = self.parser.get_http_version()
        left = body_of(version, self.headers)
        if not self._head_ended or self._ended != (left == 0):  # The parser disagrees about where the body ends.
            raise Unreadable
        raw_path, _, query = self.url.partition(b"?")
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = version
        self.scope["path"] = unquote(raw_path.decode("ascii"))
        self.scope["raw_path"] = raw_path
        self.scope["query_string"] = query
        self.cycle = (UntilClose if version == "1.0" else RequestResponseCycle)(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and version == "1.1",
            keep_alive=version == "1.1" and self._keeps_alive,
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)
        return left

    def _read_body(self) -> None:
        part = bytes(self._unread if self._left is None else self._unread[: self._left])
        del self._unread[: len(part)]
        self._around += len(part)
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserError:
            if not self._ended:
                raise
            self.cycle.keep_alive = False  # Data follows the last chunk, and its beginning is unknown.
        if self._left is not None:
            self._left -= len(part)
        elif self._around > LARGEST_HEAD:
            raise Unreadable
        if self._ended:
            self._whole()

    def _whole(self) -> None:
        """The request is complete."""
        self._forget()
        self._awaits = _Awaits.NOTHING
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()
        elif self.cycle.keep_alive:
            self._awaits = _Awaits.HEAD
        else:
            self.transport.close()

    # ---------------------------------------------------------------- what the parser calls

    def on_message_begin(self) -> None:
        if self._awaits is not _Awaits.HEAD:
            raise Unreadable
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._awaits is _Awaits.HEAD:  # Trailers are not headers.
            super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        self._head_ended, self._keeps_alive = True, self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._around = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._ended = True

    # ---------------------------------------------------------------- the end of an answer, and of a connection

    def on_response_complete(self) -> None:
        if self._guest is not None:
            self._guest.answered()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._awaits is _Awaits.NOTHING:
            self._awaits = _Awaits.HEAD
        self._read()

    def _is_sending(self) -> bool:
        """Whether the client may still be sending when its connection is closed."""
        return self._refused or self._awaits is _Awaits.BODY

    def _hurry(self) -> None:
        """Sets the deadline for an arriving request, unless it is set already."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.read_timeout, self._too_slow)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._end(
            408,
            InvalidInput.code,
            f"the request did not arrive within {self.read_timeout:g} seconds. Send it completely",
        )

    def _asked_to_leave(self, status: int, message: str) -> None:
        if self.cycle is not None and self._awaits is _Awaits.HEAD and not self._unread:
            self._forget()
            self.transport.close()  # It was served and has no pending request, so no message is needed.
        else:
            self._end(status, Unavailable.code, message, lingers=False)

    def _end(self, status: int, code: str, message: str, *, lingers: bool = True) -> None:
        """Sends the reason, unless a response has already begun, and closes the connection."""
        self._forget()
        self._refused = lingers
        between = self._awaits is _Awaits.HEAD
        if not self.transport.is_closing() and (between or not self.cycle.response_started):
            self.transport.write(_answer("" if between else self.scope["path"], status, code, message))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _answer(path: str, status: int, code: str, message: str) -> bytes:
    body, kind = written(path, status, message, code, {})
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    lines += ["retry-after: 1"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
