"""Keeps clients from holding HTTP connections idle: a request must arrive in time, and the number of connections is limited.

The framework below waits for ever for the rest of a request, and answers plain text to what is not HTTP.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from runrig.api.crowd import AT_ONCE, Crowd, Guest
from runrig.domain.errors import InvalidInput, Unavailable

READ_TIMEOUT_S = 30.0
LARGEST_HEAD = 64 * 1024
"""Bytes of request line and headers."""

LINGER_S = 2.0
_WAITS_FOR_MORE = (h11.IDLE, h11.SEND_BODY)
_MAY_ANSWER = (h11.IDLE, h11.SEND_RESPONSE)


def config(
    app: ASGIApp,
    *,
    crowd: Crowd,
    read_timeout_s: float = READ_TIMEOUT_S,
    proxies: str | None = None,
    **more: Any,
) -> uvicorn.Config:
    """How *app* is served to those who came into *crowd* by its door.  *proxies*: addresses trusted to say on whose behalf they call.

    *more*: further options of uvicorn.
    """

    class Connection(LimitedConnection):
        read_timeout = read_timeout_s
        guests = crowd.guests

    # Without its own answer to WebSockets and without its name: the less is exposed, the better.
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies or "",
        server_header=False,
        log_config=None,
        access_log=False,
        backlog=AT_ONCE,
        **more,
    )


class LimitedConnection(H11Protocol):
    """*read_timeout*: seconds from the first byte of a request to its last, and from the start of a connection to its first byte."""

    read_timeout: ClassVar[float] = READ_TIMEOUT_S
    guests: ClassVar[Mapping[int, Guest]] = {}
    _guest: Guest | None = None
    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # only TCP comes here
        super().connection_made(_Lingering(transport, self._is_sending, self.read_timeout))
        self._guest = self.guests.get(transport.get_extra_info("socket").fileno())
        if self._guest is not None:
            self._guest.end = self._asked_to_leave
            self.app_state = {**self.app_state, "guest": self._guest}
            if self._guest.refusal is not None:
                self._guest.leaves()
                self._end(503, Unavailable.code, self._guest.refusal)
                return
        self._watch(expected=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        self._watch(expected=bool(self.conn.trailing_data[0]))

    def on_response_complete(self) -> None:
        if self._guest is not None:
            self._guest.answered()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - says as little to every mistake
        self._end(
            400,
            InvalidInput.code,
            "this is not an HTTP/1.1 request that can be read: check its request line and headers, 64 KiB at most",
        )

    def _should_upgrade(self) -> bool:
        """No: there is no other protocol here, so a request to switch is a request like any other."""
        return False

    def _is_sending(self) -> bool:
        """True if a client that is to be disconnected may still be sending."""
        return self._refused or self.conn.their_state is h11.SEND_BODY

    def _watch(self, *, expected: bool) -> None:
        """Sets the deadline while a request is arriving.  *expected*: one is, even if nothing of it has been read yet."""
        state = self.conn.their_state
        if state not in _WAITS_FOR_MORE or (state is h11.IDLE and not expected):
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.read_timeout, self._too_slow)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._end(
            408, InvalidInput.code, f"the request did not arrive within {self.read_timeout:g} seconds: send it whole"
        )

    def _asked_to_leave(self, status: int, message: str) -> None:
        if self.cycle is not None and self.cycle.response_complete and not self.conn.trailing_data[0]:
            self._forget()
            self.transport.close()  # it was served, and nothing is asked: nothing is to be said
        else:
            self._end(status, Unavailable.code, message, lingers=False)

    def _end(self, status: int, code: str, message: str, *, lingers: bool = True) -> None:
        """Says why, unless an answer has already begun, and hangs up."""
        self._forget()
        self._refused = lingers
        if self.conn.our_state in _MAY_ANSWER and not self.transport.is_closing():
            body = json.dumps({"message": message, "error_code": code, "details": {}}).encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            headers += [("retry-after", "1")] if status == 503 else []
            for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class _Lingering(asyncio.Transport):
    """Closes in two steps: a client that is still sending when it is refused would lose the answer if the socket closed at once.

    Who takes nothing of what is sent for *patience_s* is cut off.
    """

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool], patience_s: float) -> None:
        super().__init__()
        self._patience_s = patience_s
        self._unsent: asyncio.TimerHandle | None = None
        self._transport = transport
        self._is_sending = is_sending
        self._closing = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)
        if self._unsent is None and (left := self._transport.get_write_buffer_size()):
            self._unsent = asyncio.get_running_loop().call_later(self._patience_s, self._look, left)

    def _look(self, before: int) -> None:
        """*before*: bytes that had not been taken when it last looked."""
        self._unsent = None
        left = self._transport.get_write_buffer_size()
        if left >= before:
            self._transport.abort()
        elif left:
            self._unsent = asyncio.get_running_loop().call_later(self._patience_s, self._look, left)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if not self._is_sending():
            self._transport.close()
            return
        self._closing = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.close)

    def abort(self) -> None:
        self._transport.abort()
