"""Many clients in one event loop: each submits, waits, looks at the list and at its workflow, and thinks."""

import asyncio
import json
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

FILE = """
workflow:
  name: {name}
  tasks:
  - {{name: main, image: any, command: [train], duration: 0.5, resource: one}}
  resources:
    one: {{gpu: 1}}
"""
PATIENCE_S = 30.0


@dataclass
class Figures:
    """*seconds*: of each kind of request.  *errors*: what was answered instead of 200.

    *late*: seconds from the moment planned for a request to its sending, which are part of *seconds*: the clients' own fault.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    late: list[float] = field(default_factory=list)

    def percentile(self, kind: str, percent: float) -> float:
        return _percentile(self.seconds[kind], percent)

    def lines(self) -> list[str]:
        found = [f"{kind:8} {_line(seconds)}" for kind, seconds in self.seconds.items()]
        if self.late:
            found.append(f"of that the clients were late {_line(self.late)}")
        return [*found, f"{len(self.errors)} errors{''.join(f'; {each}' for each in self.errors[:5])}"]


def _percentile(seconds: list[float], percent: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


def _line(seconds: list[float]) -> str:
    figures = "  ".join(f"p{p:g} {_percentile(seconds, p) * 1000:7.1f}" for p in (50, 95, 99, 99.9))
    return f"{len(seconds):7} requests   {figures}   max {max(seconds) * 1000:7.1f} ms"


class Client:
    """One connection, opened again when the server closes it.

    *planned*: when the next request should have been sent, as `time.perf_counter` counts; None: when it is.
    """

    def __init__(self, port: int, token: str, figures: Figures) -> None:
        self._port, self._token, self._figures = port, token, figures
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.planned: float | None = None

    async def ask(self, kind: str, method: str, path: str, body: object = None, *, busy: int | None = None) -> Any:
        """None after an error.  *busy*: a status that is none; it is counted apart."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        start = time.perf_counter()
        if self.planned is not None:
            self._figures.late.append(start - self.planned)
            start = self.planned
        try:
            status, answer = await asyncio.wait_for(self._exchange(head.encode() + content), PATIENCE_S)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as error:
            self._figures.errors.append(f"{kind}: {error!r}")
            self._streams = None
            return None
        if status == busy:
            self._figures.seconds[f"{kind}: {busy}"].append(time.perf_counter() - start)
            return None
        self._figures.seconds[kind].append(time.perf_counter() - start)
        if status != 200:
            self._figures.errors.append(f"{kind}: {status} {answer[:200]!r}")
            return None
        return json.loads(answer)

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        for fresh in (False, True):
            if self._streams is None or fresh:
                self.close()
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            try:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                break
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                # Open for too long: the server may have closed it at this very moment. There was no
                # answer, so nothing was read.
                if fresh or (isinstance(error, asyncio.IncompleteReadError) and error.partial):
                    raise
        return int(head.split(b" ")[1]), await _body(reader, head.lower())

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if b"\r\ntransfer-encoding: chunked" in head:
        chunks = []
        while size := int(await reader.readline(), 16):
            chunks.append((await reader.readexactly(size + 2))[:-2])
        await reader.readline()
        return b"".join(chunks)
    lines = head.split(b"\r\n")
    return await reader.readexactly(
        next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
    )


async def _live(number: int, client: Client, end: float, think_s: float) -> None:
    chance = random.Random(number)
    await asyncio.sleep(chance.random() * think_s)
    while time.monotonic() < end:
        text = FILE.format(name=f"load-{number % 20}")
        made = await client.ask("submit", "POST", "/api/pool/team/workflow", {"file": text})
        if made is not None:
            await client.ask("wait", "GET", f"/api/v1/workflows/{made['name']}/wait?timeout=20")
            await client.ask("query", "GET", f"/api/workflow/{made['name']}")
        await client.ask("list", "GET", "/api/workflow?all_users=true&limit=20")
        if chance.random() < 0.2:
            await client.ask("pools", "GET", "/api/pool_quota")
        await asyncio.sleep(chance.expovariate(1 / think_s))
    client.close()


async def run(port: int, token: str, *, clients: int, seconds: float, think_s: float) -> Figures:
    figures = Figures()
    end = time.monotonic() + seconds
    await asyncio.gather(*(_live(number, Client(port, token, figures), end, think_s) for number in range(clients)))
    return figures
