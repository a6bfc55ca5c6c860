"""UDP to a port of an attempt.  Each piece that is carried begins with whom it is from or for, an IPv4 address and a port: one datagram.

Each sender has a socket of its own, so that answers find their way back.  What finds no room is lost, as datagrams may be.
"""

import asyncio
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress

from runrig.backends.local import task_ports
from runrig.domain.errors import InvalidInput
from runrig.ports.backend import OUT, SENDER, Size

LARGEST = 65_507
"""Bytes of a datagram over IPv4."""
MOST_SENDERS = 16
"""The one that was silent for longest makes room for another."""
WAITING = 1024 * 1024
"""Bytes that wait for a slow client."""
LOOK_S = 2.0
"""How long it is believed that the port is the task's own."""


async def connect(task: str, supervisor_pid: int, port: int) -> "DatagramPassage":
    """Raises Conflict if the task does not listen there."""
    address = task_ports.address_of(task, port, await asyncio.to_thread(task_ports.listening, supervisor_pid, "udp"))
    return DatagramPassage((address, port), lambda: task_ports.listening(supervisor_pid, "udp").get(port) == address)


class DatagramPassage:
    """*listens*: whether the task still does, at *address*; it may take long."""

    def __init__(self, address: tuple[str, int], listens: Callable[[], bool]) -> None:
        self._address = address
        self._listens = listens
        self._is_there = True
        self._looked_at = time.monotonic()
        self._sockets: OrderedDict[bytes, socket.socket] = OrderedDict()
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()

    async def read(self) -> tuple[int, bytes] | None:
        while not self._pieces:
            self._news.clear()
            await self._news.wait()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        return OUT, piece

    async def write(self, data: bytes) -> None:
        """Raises InvalidInput."""
        if not SENDER <= len(data) <= SENDER + LARGEST:
            raise InvalidInput.one(
                f"invalid datagram message of {len(data)} bytes. Send an IPv4 address (4 bytes), a port (2) and at most {LARGEST} bytes"
            )
        if time.monotonic() - self._looked_at > LOOK_S:
            self._is_there = await asyncio.to_thread(self._listens)
            self._looked_at = time.monotonic()
        if self._is_there:  # else somebody else may have the port now
            with suppress(OSError):
                self._socket_of(data[:SENDER]).send(data[SENDER:])

    def _socket_of(self, sender: bytes) -> socket.socket:
        """Raises OSError."""
        found = self._sockets.get(sender)
        if found is None:
            if len(self._sockets) >= MOST_SENDERS:
                _close(self._sockets.popitem(last=False)[1])
            found = socket.socket(socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET, socket.SOCK_DGRAM)
            found.setblocking(False)
            self._sockets[sender] = found
            asyncio.get_running_loop().add_reader(found, self._receive, sender, found)
            found.connect(self._address)
        self._sockets.move_to_end(sender)
        return found

    def _receive(self, sender: bytes, of_sender: socket.socket) -> None:
        with suppress(OSError):  # nothing listens there at present
            piece = sender + of_sender.recv(LARGEST + 1)
            if self._size + len(piece) <= WAITING:
                self._pieces.append(piece)
                self._size += len(piece)
                self._news.set()

    async def resize(self, size: Size) -> None:
        """It has no terminal."""

    async def close(self) -> None:
        while self._sockets:
            _close(self._sockets.popitem()[1])


def _close(of_sender: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(of_sender)
    of_sender.close()
