"""WebSockets to running tasks, through the server.

`Channel` carries a program: the first byte of a frame gives its type. `Forwarder` forwards a local port to a port of a
task; `DatagramForwarder` does the same for UDP. The library is imported on first use, so that other commands do not pay
for it.
"""

import json
import socket
import struct
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from runrig.client.failure import server_said
from runrig.client.transport import Transport, path
from runrig.domain.errors import ServerFault

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

CONNECT_S = 60.0
OUT, ERR = 1, 2
_STDIN, _END, _TERMINAL = 0, 3, 4
_CHUNK = 32 * 1024
_SENDER = struct.Struct("!4sH")
"""An IPv4 address and a port, which precede each datagram."""
_LARGEST_DATAGRAM = 65_536


@contextmanager
def connected(client: Transport, path: str, timeout_s: float) -> "Iterator[ClientConnection]":
    """Yields an open connection. Raises the server's error, or ServerFault if no server responds."""
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.sync.client import connect

    url, headers = client.socket_address(path)
    try:
        opening = connect(
            url,
            additional_headers=headers,
            user_agent_header=None,
            compression=None,
            proxy=None,
            open_timeout=timeout_s,
            max_size=None,
        ).__enter__()
    except InvalidStatus as error:
        body = bytes(error.response.body or b"").decode("utf-8", "replace")
        raise server_said(error.response.status_code, body) from None
    except (OSError, InvalidHandshake, EOFError) as error:
        raise ServerFault(f"no connection to {url.partition('?')[0]} ({str(error) or 'no answer in time'})") from None
    with opening as connection:
        yield connection


class Channel:
    """A program in a task. One thread reads, others write."""

    def __init__(self, connection: "ClientConnection") -> None:
        self._connection = connection
        self.end: Mapping[str, Any] | None = None
        """The server's last message: ``exit_code`` and ``message``, or an error; None if the connection broke."""
        self.why = ""
        """Reason given when the connection closed."""

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yields (OUT or ERR, data) until the program ends."""
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                message = self._connection.recv()
                if not isinstance(message, bytes) or not message:
                    continue
                if message[0] == _END:
                    self.end = json.loads(message[1:])
                else:
                    yield message[0], message[1:]
        except ConnectionClosed as error:
            self.why = "" if error.rcvd is None else error.rcvd.reason or str(error.rcvd.code)

    def write(self, data: bytes) -> bool:
        """Writes to its stdin; b"" closes it. Returns False once the connection is closed."""
        return self._send(bytes((_STDIN,)) + data)

    def resize(self, rows: int, columns: int) -> bool:
        return self._send(bytes((_TERMINAL,)) + json.dumps({"rows": rows, "columns": columns}).encode())

    def _send(self, data: bytes) -> bool:
        from websockets.exceptions import ConnectionClosed

        try:
            self._connection.send(data)
        except (ConnectionClosed, OSError):
            return False
        return True


class Forwarding(ABC):
    """Forwards *local* to the target of the session *answer*, from `start` until `ended`."""

    def __init__(self, client: Transport, answer: Mapping[str, Any], local: socket.socket, timeout_s: float) -> None:
        self._client = client
        self._key = answer["key"]
        self._local = local
        self._timeout_s = timeout_s
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        """Why it ended, if the server did not end it."""
        self.why = "the server disconnected"

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with connected(self._client, path("sessions", self._key), self._timeout_s) as connection:
                threading.Thread(target=self._outward, args=(connection,), daemon=True).start()
                self._wait(connection)
        except Exception as error:  # noqa: BLE001 - raised again in the waiting thread
            self.failure = error
        finally:
            self.ended.set()
            with suppress(OSError):  # The connection is gone, so no answer will come.
                self._local.shutdown(socket.SHUT_RDWR)
            self._local.close()

    def _wait(self, connection: "ClientConnection") -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(OSError):
            try:
                while True:
                    self._take(connection.recv())
            except ConnectionClosed as error:
                if error.rcvd is not None:
                    self.why = error.rcvd.reason or self.why

    @abstractmethod
    def _take(self, message: str | bytes) -> None:
        """Handles a message from the server."""

    @abstractmethod
    def _outward(self, connection: "ClientConnection") -> None:
        """Sends what arrives at *local*."""


class DatagramForwarder(Forwarding):
    """Forwards datagrams of the UDP socket *local*, each in a message with its sender's address."""

    def __init__(self, client: Transport, answer: Mapping[str, Any], local: socket.socket, timeout_s: float) -> None:
        super().__init__(client, answer, local, timeout_s)
        self._senders: dict[bytes, tuple[str, int]] = {}

    def _take(self, message: str | bytes) -> None:
        if isinstance(message, bytes) and (address := self._senders.get(message[: _SENDER.size])):
            with suppress(OSError):  # Sends only to known peers, whatever address the server names.
                self._local.sendto(message[_SENDER.size :], address)

    def _outward(self, connection: "ClientConnection") -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(OSError, ConnectionClosed):
            while not self.ended.is_set():
                data, address = self._local.recvfrom(_LARGEST_DATAGRAM)
                sender = _SENDER.pack(socket.inet_aton(address[0]), address[1])
                self._senders[sender] = address
                connection.send(sender + data)


class Forwarder(Forwarding):
    """Forwards connections of the listening socket *local*, each over its own connection to the server."""

    def _take(self, message: str | bytes) -> None:
        """Ignores control messages: data has its own connections."""

    def _outward(self, control: "ClientConnection") -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(OSError, ConnectionClosed):  # The listener or the control connection was closed.
            while True:
                local = self._local.accept()[0]
                key = f"CONNECTION-{uuid.uuid4().hex}"
                control.send(json.dumps({"key": key, "cookie": ""}).encode())
                threading.Thread(target=self._carry, args=(local, key), daemon=True).start()

    def _carry(self, local: socket.socket, key: str) -> None:
        from websockets.exceptions import ConnectionClosed

        def said() -> None:
            with suppress(OSError, ConnectionClosed):
                while True:
                    data = local.recv(_CHUNK)
                    remote.send(data)  # Empty data marks the end of this side's data.
                    if not data:
                        return

        with closing(local), suppress(Exception):  # The local program sees the connection close.
            with connected(self._client, path("sessions", key), self._timeout_s) as remote:
                threading.Thread(target=said, daemon=True).start()
                for message in remote:
                    local.sendall(message if isinstance(message, bytes) else message.encode())
            local.shutdown(socket.SHUT_RDWR)
