"""Sends responses: parts written together are sent together, a client that is still sending gets its refusal, and one
that does not read is disconnected.
"""

import asyncio
import struct
import termios
from collections.abc import Callable
from fcntl import ioctl

LINGER_S = 2.0
TOGETHER = 16 * 1024
"""Maximum bytes that wait for more to be written, such as a head for its body."""


class Lingering(asyncio.Transport):
    """Closes in two steps: if the socket closed immediately, a client that is still sending would lose the response.

    Disconnects a client that reads nothing for *patience_s*.
    """

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool], patience_s: float) -> None:
        super().__init__()
        self._transport = transport
        self._is_sending = is_sending
        self._patience_s = patience_s
        self._unsent: asyncio.TimerHandle | None = None
        self._held = bytearray()
        self._leaves_soon = False
        self._written = 0
        self._closing = False

    @property
    def plain(self) -> asyncio.Transport:
        return self._transport

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if len(self._held) + len(data) > TOGETHER:
            self._let_go()
            self._write(data)
            return
        self._held += data
        if not self._leaves_soon:
            self._leaves_soon = True
            asyncio.get_running_loop().call_soon(self._let_go)

    def _let_go(self) -> None:
        self._leaves_soon = False
        if self._held:
            held, self._held = self._held, bytearray()
            self._write(held)

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        if self._transport.is_closing():
            return
        self._written += len(data)
        self._transport.write(data)
        if self._unsent is None:
            self._look_later()

    def _look_later(self) -> None:
        left = self._transport.get_write_buffer_size()
        self._unsent = (
            asyncio.get_running_loop().call_later(self._patience_s, self._look, self._taken(left)) if left else None
        )

    def _look(self, taken: int) -> None:
        """*taken*: bytes that had arrived at the previous look."""
        left = self._transport.get_write_buffer_size()
        if left and self._taken(left) <= taken:
            self._transport.abort()
        else:
            self._look_later()

    def _taken(self, left: int) -> int:
        """Returns the bytes that the client received. The system buffers megabytes, and accepts no more until it has
        sent a good part of them.
        """
        connection = self._transport.get_extra_info("socket").fileno()
        (kept,) = struct.unpack("i", ioctl(connection, termios.TIOCOUTQ, bytes(4)))
        return self._written - left - int(kept)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self._let_go()
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
