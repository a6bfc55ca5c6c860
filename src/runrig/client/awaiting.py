"""A network on the event loop: calls run concurrently."""

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakSet

from runrig.client.network import CHUNK, KeptToken, Stream

if TYPE_CHECKING:
    import ssl


class AwaitingStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes, timeout_s: float | None) -> None:
        async with asyncio.timeout(timeout_s):
            self._writer.write(data)
            await self._writer.drain()

    async def receive(self, timeout_s: float | None) -> bytes:
        async with asyncio.timeout(timeout_s):
            return await self._reader.read(CHUNK)

    def close(self) -> None:
        """Aborts, because a TLS shutdown takes several turns of the loop, which may end first."""
        self._writer.transport.abort()


class AwaitingNetwork:
    def __init__(self) -> None:
        self._streams: WeakSet[AwaitingStream] = WeakSet()
        self._renewal: asyncio.Task[None] | None = None

    async def connect(self, host: str, port: int, tls: "ssl.SSLContext | None", timeout_s: float | None) -> Stream:
        async with asyncio.timeout(timeout_s):
            stream = AwaitingStream(*await asyncio.open_connection(host, port, ssl=tls))
        self._streams.add(stream)
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def renew(self, kept: KeptToken) -> None:
        """Renews once for all callers, in a thread. Until it is done, others send the old token while it is valid."""
        if self._renewal is None:
            self._renewal = asyncio.create_task(asyncio.to_thread(kept.renew))
            self._renewal.add_done_callback(self._renewed)
        elif kept.is_good:
            return
        await asyncio.shield(self._renewal)  # A cancelled caller must not cancel the renewal for the others.

    def _renewed(self, renewal: asyncio.Task[None]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            renewal.exception()  # Marks the exception as retrieved, even if no caller still waits.

    async def close(self) -> None:
        """Closes all connections immediately, including those of abandoned lists and streams, because the loop may end first."""
        for stream in list(self._streams):
            stream.close()
        await asyncio.sleep(0)  # A transport closes its socket in the next turn of the loop.
