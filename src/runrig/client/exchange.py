"""HTTP on one connection: a request, then the response in pieces. h11 parses the bytes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import h11

from runrig.client.network import Stream

BROKEN = (OSError, h11.RemoteProtocolError)
"""Errors after which a new exchange may succeed."""


Meanwhile = Callable[[], Awaitable[object]]
LOOK_S = 30.0


class Head(NamedTuple):
    """The start of a response. *headers*: by lower-case name."""

    status: int
    headers: Mapping[str, str]


class Exchange:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self._timeout_s: float | None = None

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float | None
    ) -> Head:
        """Raises BROKEN."""
        self._timeout_s = timeout_s
        length = {} if body is None else {"Content-Length": str(len(body))}
        events = [
            h11.Request(method=method, target=target, headers=list({**headers, **length}.items())),
            *([h11.Data(data=body)] if body else []),
            h11.EndOfMessage(),
        ]
        data = b"".join(self._http.send(event) or b"" for event in events)
        # A server that refuses a body answers early and reads no more of it.
        with suppress(BrokenPipeError, ConnectionResetError):
            await self._stream.send(data, timeout_s)
        while not isinstance(event := await self._event(), h11.Response):
            if isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the server closed the connection")
        return Head(event.status_code, {name.decode(): value.decode("latin-1") for name, value in event.headers})

    async def pieces(self, meanwhile: Meanwhile | None = None) -> AsyncGenerator[bytes, None]:
        """Yields the body as it arrives. Raises BROKEN.

        Awaits `meanwhile` between pieces, and every `LOOK_S` seconds without data, instead of timing out.
        """
        if meanwhile is not None:
            self._timeout_s = LOOK_S
        while True:
            try:
                event = await self._event()
            except TimeoutError:
                if meanwhile is None:
                    raise
                event = None
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif event is not None:
                return
            if meanwhile is not None:
                await meanwhile()

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.receive(self._timeout_s))
        return event

    def renewed(self) -> bool:
        """Whether the response is complete and the connection can be reused."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        self._stream.close()
