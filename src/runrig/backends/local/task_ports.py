"""Connections to ports on which an attempt listens, and to no others: on this machine other processes have ports too."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Literal

import psutil

from runrig.backends.local.visits import CHUNK
from runrig.domain.errors import Conflict, Unavailable
from runrig.ports.backend import OUT, Passage

_V4, _V6 = "127.0.0.1", "::1"
_BY_ADDRESS = {"127.0.0.1": _V4, "0.0.0.0": _V4, "::1": _V6, "::": _V4}  # noqa: S104 - read, not bound
_CONNECTS_S = 5.0


def listening(supervisor_pid: int, protocol: Literal["tcp", "udp"]) -> dict[int, str]:
    """Returns port → loopback address, for all ports on which processes below *supervisor_pid* listen."""
    found: dict[int, str] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(supervisor_pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                for each in process.net_connections(protocol):
                    address = _BY_ADDRESS.get(each.laddr.ip) if each.laddr else None
                    takes_all = each.status == psutil.CONN_LISTEN if protocol == "tcp" else not each.raddr
                    if address is not None and takes_all:
                        found[each.laddr.port] = address
    return found


def address_of(task: str, port: int, there: Mapping[int, str]) -> str:
    """Returns the address of *port* among those of *task* in *there*. Raises Conflict if it is missing."""
    if port not in there:
        others = ", ".join(str(each) for each in sorted(there)) or "none"
        raise Conflict(
            f"no process of {task} listens on loopback port {port} (its ports: {others})",
            {"port": port, "ports": sorted(there)},
        )
    return there[port]


async def connect(task: str, supervisor_pid: int, port: int) -> Passage:
    """Raises Conflict if the task does not listen there."""
    address = address_of(task, port, await asyncio.to_thread(listening, supervisor_pid, "tcp"))
    try:
        async with asyncio.timeout(_CONNECTS_S):
            reader, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"port {port} of {task} refuses connections: {str(error) or 'no response'}") from error
    return PortPassage(reader, writer)


class PortPassage(Passage):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> tuple[int, bytes] | None:
        try:
            data = await self._reader.read(CHUNK)
        except OSError:
            data = b""
        return (OUT, data) if data else None

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            if data:
                self._writer.write(data)
                await self._writer.drain()
            elif self._writer.can_write_eof():
                self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
