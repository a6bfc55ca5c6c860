"""Access to sockets, threads and time. Calls are written once, as coroutines; a network decides how they wait.

`BlockingNetwork` blocks in system calls, so its coroutines never pause: `done` and `each` run them without an event
loop. `awaiting.py` has the other one.
"""

import socket
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import ssl

CHUNK = 65536
T = TypeVar("T")


class KeptToken(Protocol):
    """A token that expires and can be renewed."""

    @property
    def token(self) -> str | None:
        """Returns the token, or None."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether it should be renewed now."""
        ...

    @property
    def is_good(self) -> bool:
        """Returns True until it expires."""
        ...

    def renew(self) -> None:
        """Blocks for files and a server. Raises NotAllowed if it cannot be renewed, other errors only if it has expired."""
        ...


class Stream(Protocol):
    """A connection. Timeouts in seconds; None: no timeout. All methods but `close` raise OSError."""

    async def send(self, data: bytes, timeout_s: float | None) -> None: ...

    async def receive(self, timeout_s: float | None) -> bytes:
        """Returns b"" at the end."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    async def connect(self, host: str, port: int, tls: "ssl.SSLContext | None", timeout_s: float | None) -> Stream: ...

    async def sleep(self, seconds: float) -> None: ...

    async def renew(self, kept: KeptToken) -> None:
        """Returns once *kept*, which is due for renewal, can be sent. Raises as `KeptToken.renew`."""
        ...


class BlockingStream:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    async def send(self, data: bytes, timeout_s: float | None) -> None:
        self._connection.settimeout(timeout_s)
        self._connection.sendall(data)

    async def receive(self, timeout_s: float | None) -> bytes:
        self._connection.settimeout(timeout_s)
        return self._connection.recv(CHUNK)

    def close(self) -> None:
        self._connection.close()


class BlockingNetwork:
    async def connect(self, host: str, port: int, tls: "ssl.SSLContext | None", timeout_s: float | None) -> Stream:
        connection = socket.create_connection((host, port), timeout_s)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                connection = tls.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise
        return BlockingStream(connection)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def renew(self, kept: KeptToken) -> None:
        kept.renew()


def done(call: Coroutine[Any, Any, T]) -> T:
    """Returns the result of *call*, which must use a blocking network."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    call.close()
    raise AssertionError("a call on a blocking network paused")


def each(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yields the items of *items*, which must use a blocking network."""
    try:
        while True:
            try:
                item = done(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        done(items.aclose())
