"""What lies between a client and the API server, and can fail: a cable that a test cuts, and a doorkeeper who says 429."""

import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import ControlPlane


class Cable:
    """Carries TCP to the API server: `cut` breaks all connections and takes no more, `mend` ends that, `freeze` just carries nothing."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ends: set[socket.socket] = set()
        self._whole, self._flows = threading.Event(), threading.Event()
        self._whole.set()
        self._flows.set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        self._whole.clear()
        for each in list(self._ends):
            _break(each)

    def mend(self) -> None:
        self._whole.set()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self.cut()
        self.thaw()
        _break(self._listener)
        for thread in self._threads:
            thread.join(5)
        for each in (self._listener, *self._ends):
            each.close()

    def _start(self, work: Callable[..., None], *about: socket.socket) -> None:
        thread = threading.Thread(target=work, args=about, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._whole.is_set():
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target))
                self._ends |= {near, far}
                self._start(self._carry, near, far)
                self._start(self._carry, far, near)

    def _carry(self, start: socket.socket, end: socket.socket) -> None:
        with suppress(OSError):
            while said := start.recv(1 << 16):
                self._flows.wait()
                end.sendall(said)
        for each in (start, end):
            _break(each)


def _break(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


@contextmanager
def cable(plane: ControlPlane) -> Iterator[Cable]:
    made = Cable(int(plane.url.rpartition(":")[2]))
    try:
        yield made
    finally:
        made.close()


@contextmanager
def doorkeeper(status: int, headers: dict[str, str], body: bytes) -> Iterator[str]:
    """A server that says the same to everything; its URL."""

    class Says(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Says) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def kubeconfig(plane: ControlPlane, place: Path, *, url: str | None = None, token: str | None = None) -> Path:
    """Writes the kubeconfig of *plane* to *place*, with another way to it or another login."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    if url is not None:
        config["clusters"][0]["cluster"]["server"] = url
    if token is not None:
        config["users"][0]["user"] = {"token": token}
    place.write_text(yaml.safe_dump(config))
    return place
