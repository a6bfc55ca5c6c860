"""A network on the event loop: while one call waits, others go on."""

import asyncio
from typing import TYPE_CHECKING

from runrig.client.network import CHUNK, Stream

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
        self._writer.close()


class AwaitingNetwork:
    async def connect(self, host: str, port: int, tls: "ssl.SSLContext | None", timeout_s: float | None) -> Stream:
        async with asyncio.timeout(timeout_s):
            return AwaitingStream(*await asyncio.open_connection(host, port, ssl=tls))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
