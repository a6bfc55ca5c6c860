"""Clients of a server that is measured, in processes of their own on bare sockets, so that they cost the server nothing.

`python -m bench.traffic submit PORT CLIENTS EACH FILE` and `follow PORT PATH COUNT`.  Imports nothing of the server, which takes
a processor longer than what they do in a test.
"""

import json
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

TOKEN = "bench"
STARTS_WITHIN_S = 60
_SENT_WITHIN_S = 600
_ID = re.compile(rb"id: (\d+)[.\w]*\n")


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bench.traffic", *map(str, arguments)]


# ---------------------------------------------------------------- submissions


class Sent(NamedTuple):
    """*seconds*: from the first request to the last response.  *processor_s*: of the clients."""

    seconds: float
    processor_s: float


def sent(port: int, clients: int, each: int, file: str) -> Sent:
    """Submits *file* *each* times.  Raises RuntimeError if a submission is not accepted."""
    command = _command("submit", port, clients, each, file)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=_SENT_WITHIN_S)
    answer = json.loads(done.stdout)
    if failed := answer.pop("failed"):
        raise RuntimeError(f"{failed} submissions were not accepted")
    return Sent(**answer)


def submit(port: int, clients: int, each: int, file: str) -> Iterator[bytes]:
    """The beginnings of *each* responses to as many submissions, on *clients* connections that stay open."""
    body = json.dumps({"file": file}).encode()
    head = (
        f"POST /api/pool/team/workflow HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request, left = head.encode() + body, each
    with selectors.DefaultSelector() as selector:
        for _ in range(clients):
            selector.register(socket.create_connection(("127.0.0.1", port)), selectors.EVENT_READ, bytearray())
        for key in tuple(selector.get_map().values()):
            _send(key.fileobj, request)
            left -= 1
        while selector.get_map():
            for key, _ in selector.select():
                if not _whole(key):
                    continue
                yield bytes(key.data[:12])
                key.data.clear()
                if left:
                    _send(key.fileobj, request)
                    left -= 1
                else:
                    selector.unregister(key.fileobj)
                    _socket(key.fileobj).close()


def _whole(key: selectors.SelectorKey) -> bool:
    """Reads the available part of a response; True once it is complete."""
    more = _socket(key.fileobj).recv(65536)
    if not more:
        raise RuntimeError("the server hung up")
    key.data.extend(more)
    head, found, rest = bytes(key.data).partition(b"\r\n\r\n")
    if not found:
        return False
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return len(rest) >= int(length)


def _send(connection: object, request: bytes) -> None:
    _socket(connection).sendall(request)


def _socket(connection: object) -> socket.socket:
    assert isinstance(connection, socket.socket), "only sockets are registered"
    return connection


def _submit(port: int, clients: int, each: int, file: str) -> None:
    start, used = time.perf_counter(), time.process_time()
    failed = sum(beginning != b"HTTP/1.1 200" for beginning in submit(port, clients, each, file))
    answer = {"seconds": time.perf_counter() - start, "processor_s": time.process_time() - used, "failed": failed}
    print(json.dumps(answer))


# ---------------------------------------------------------------- the followers


@contextmanager
def following(port: int, path: str, count: int) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        _command("follow", port, path, count), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "open\n":
            raise RuntimeError("the streams were not opened")
        yield process
    finally:
        process.terminate()
        process.wait(STARTS_WITHIN_S)
        process.stdin.close()
        process.stdout.close()


def follow(port: int, path: str, count: int) -> None:
    """Prints `open` when all streams are open and, for each revision on stdin, `told` when all streams have received it."""
    reached: dict[socket.socket, int] = {}
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            stream = socket.create_connection(("127.0.0.1", port), timeout=STARTS_WITHIN_S)
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            stream.sendall(head.encode())
            if not stream.recv(65536).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("a stream was not opened")
            selector.register(stream, selectors.EVENT_READ, b"")
            reached[stream] = 0
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("open", flush=True)
        wanted = 0
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    wanted = int(input())
                    continue
                assert isinstance(key.fileobj, socket.socket), "only sockets are registered"
                more = key.fileobj.recv(1 << 20)
                if not more:
                    raise RuntimeError("a stream has ended")
                text = key.data + more
                for found in _ID.findall(text):
                    reached[key.fileobj] = int(found)
                selector.modify(key.fileobj, selectors.EVENT_READ, text[-40:])
            if wanted and min(reached.values()) >= wanted:
                print("told", flush=True)
                wanted = 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["submit", port, clients, each, file]:
            _submit(int(port), int(clients), int(each), file)
        case ["follow", port, path, count]:
            follow(int(port), path, int(count))
