"""A server that says what a test tells it, byte for byte, on connections that stay open."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

HANG_UP = b""


def answer(body: str, status: str = "200 OK", *headers: str) -> bytes:
    head = "".join(f"{each}\r\n" for each in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
    return f"{head}\r\n{body}".encode()


@dataclass
class Scripted:
    """*turns*: what is answered to each request in turn.  *asked*: (number of the connection, first line, headers).
    *listens*: while it is not set, nothing is read after an answer.
    """

    turns: list[bytes]
    url: str = ""
    asked: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)
    listens: threading.Event = field(default_factory=threading.Event)


@contextmanager
def scripted(*turns: bytes, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """HANG_UP closes the connection instead of an answer; so does an answer without a Content-Length, at its end."""
    script = Scripted(list(turns))
    script.listens.set()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script.url = f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=_serve, args=(listener, script, tls), daemon=True)
        thread.start()
        try:
            yield script
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, script: Scripted, tls: ssl.SSLContext | None) -> None:
    number = 0
    while True:
        try:
            connection = listener.accept()[0]
        except OSError:
            return
        with closing(connection), suppress(OSError):
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            with closing(connection):
                _answer(connection, number, script)
        number += 1


def _answer(connection: socket.socket, number: int, script: Scripted) -> None:
    with connection.makefile("rb") as stream:
        while line := stream.readline().decode().strip():
            headers = {}
            while header := stream.readline().decode().strip():
                name, _, value = header.partition(": ")
                headers[name.lower()] = value
            stream.read(int(headers.get("content-length", 0)))
            script.asked.append((number, line, headers))
            turn = script.turns.pop(0)
            connection.sendall(turn)
            if b"Content-Length" not in turn:
                return
            script.listens.wait()
