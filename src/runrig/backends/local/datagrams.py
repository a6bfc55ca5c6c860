"""UDP to a port of an attempt. Each message starts with the peer's IPv4 address and port; the rest is one datagram.

Each sender has its own socket, so that replies find their way back. Datagrams that do not fit in a buffer are dropped.
"""

import asyncio
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress

from runrig.backends.local import task_ports
from runrig.domain.errors import InvalidInput
from runrig.domain.quantities import counted
from runrig.ports.backend import OUT, SENDER, Passage

LARGEST = 65_507
"""Maximum bytes of a datagram over IPv4."""
MOST_SENDERS = 16
"""Beyond this, the least recently active sender is dropped."""
WAITING = 1024 * 1024
"""Bytes buffered for a slow client."""
LOOK_S = 2.0
"""Seconds before checking again that the port belongs to the task."""


async def connect(task: str, supervisor_pid: int, port: int) -> "DatagramPassage":
    """Raises Conflict if the task does not listen there."""
    address = task_ports.address_of(task, port, await asyncio.to_thread(task_ports.listening, supervisor_pid, "udp"))
    return DatagramPassage((address, port), lambda: task_ports.listening(supervisor_pid, "udp").get(port) == address)


class DatagramPassage(Passage):
    """*listens*: whether the task still listens at *address*; can be slow."""

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
                f"invalid datagram message of {counted(len(data), 'byte')}. "
                f"Send an IPv4 address (4 bytes), a port (2) and at most {LARGEST} bytes"
            )
        if time.monotonic() - self._looked_at > LOOK_S:
            self._is_there = await asyncio.to_thread(self._listens)
            self._looked_at = time.monotonic()
        if self._is_there:  # Otherwise another process may use the port now.
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
        with suppress(OSError):  # Nothing listens there at present.
            piece = sender + of_sender.recv(LARGEST + 1)
            if self._size + len(piece) <= WAITING:
                self._pieces.append(piece)
                self._size += len(piece)
                self._news.set()

    async def close(self) -> None:
        while self._sockets:
            _close(self._sockets.popitem()[1])


def _close(of_sender: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(of_sender)
    of_sender.close()
