"""A network on the event loop: while one call waits, others go on."""

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
        """At once: to take leave of a server in TLS takes turns of the loop, which may end before."""
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
        """One call renews, in a thread, and waits for that; meanwhile others send the token for as long as it is good."""
        if self._renewal is None:
            self._renewal = asyncio.create_task(asyncio.to_thread(kept.renew))
            self._renewal.add_done_callback(self._renewed)
        elif kept.is_good:
            return
        await asyncio.shield(self._renewal)  # who is cancelled leaves it to the others

    def _renewed(self, renewal: asyncio.Task[None]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            renewal.exception()  # taken note of, also if nobody waits any more

    async def close(self) -> None:
        """Ends every connection at once, that of a list or stream that was left too: the loop may end before it ends by itself."""
        for stream in list(self._streams):
            stream.close()
        await asyncio.sleep(0)  # a transport lets go of its socket in the next turn of the loop
