"""Requests as bytes, because what an attacker sends is what no library would."""

import io
import json
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

from tests.patience import PATIENCE_S


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    bodiless: bool = False
    """It answers a HEAD request."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Reader(io.BufferedReader):
    """Reads all answers of a connection: closing it after one would lose what was read too far."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(socket.SocketIO(connection, "r"))

    def close(self) -> None:
        """Its connection is closed by itself."""


class Wire:
    """One connection.  Whatever is sent after the server hung up is lost in silence: its answer is what counts."""

    def __init__(self, port: int, source: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0))
        self.socket: socket.socket = plain if tls is None else tls.wrap_socket(plain)
        self._reader = _Reader(self.socket)
        self._method = "GET"

    def send(self, *pieces: bytes) -> "Wire":
        self._method = "HEAD" if pieces[0].startswith(b"HEAD ") else "GET"
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                self.socket.sendall(piece)
        return self

    def answer(self) -> Answer:
        """The next one; those behind it stay for the next call.  That of a HEAD request has no body, whatever its length says."""
        response = HTTPResponse(self, method=self._method)  # type: ignore[arg-type] # it asks for nothing but `makefile`
        response.begin()
        return Answer(
            response.status, {k.lower(): v for k, v in response.getheaders()}, response.read(), self._method == "HEAD"
        )

    def makefile(self, _mode: str) -> "_Reader":
        return self._reader

    def is_closed(self, within_s: float = PATIENCE_S) -> bool:
        """Whether the server has hung up, after whatever it still said."""
        self.socket.settimeout(within_s)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()


@contextmanager
def wire(port: int, source: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Wire]:
    """*source*: any address of this machine, and all of 127.0.0.0/8 are."""
    connection = Wire(port, source, tls)
    try:
        yield connection
    finally:
        connection.close()


def request(
    method: str, path: str | bytes, headers: Iterable[tuple[str, str]] = (), body: bytes | None = None
) -> bytes:
    """*path* goes out as it is.  The length is added to a body; nothing else is."""
    target = path if isinstance(path, bytes) else path.encode()
    lines = [method.encode() + b" " + target + b" HTTP/1.1"]
    lines += [f"{name}: {value}".encode("utf-8", "surrogateescape") for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}".encode())
    return b"\r\n".join([*lines, b"", b""]) + (body or b"")
