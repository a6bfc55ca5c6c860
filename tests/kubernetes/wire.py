"""What lies between a client and the API server: a cable that a test cuts, a doorkeeper who says 429, and a gate that holds pods back."""

import base64
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from e2e.api import Object
from e2e.harness import ControlPlane
from tests.kubernetes.world import World, bare_pod


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

    with _serving(Says) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _serving(handler: type[http.server.BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def gate(world: World, count: int) -> Iterator[None]:
    """Inside, so many new pods of the namespace come in, and the API server holds the next ones: an admission webhook."""
    counts, places = threading.Event(), threading.Semaphore(count)

    class Asks(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            counts.set() if asked["dryRun"] else places.acquire()
            said = {"response": {"uid": asked["uid"], "allowed": True}}
            body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **said}).encode()
            with suppress(OSError):  # Whoever wanted the pod may be gone.
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    def is_asked() -> bool:
        world.api.create(bare_pod(world.namespace, "probe"), dry_run=True)
        return counts.is_set()

    state = world.plane.folder / "state"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(state / "server.crt", state / "server.key")
    with _serving(Asks, tls) as port:
        webhook = _webhook(world, f"https://127.0.0.1:{port}/", (state / "server.crt").read_bytes())
        world.api.create(webhook)
        try:
            world.plane.until(is_asked, "the gate counts")
            yield
        finally:
            places.release(10_000)
            world.api.delete(webhook)


def _webhook(world: World, url: str, certificate: bytes) -> Object:
    """Asked about each new pod of the namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    asked = {
        "name": "gate.runrig.test",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(certificate).decode()},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"gate-{world.namespace}"},
        "webhooks": [asked],
    }


def kubeconfig(plane: ControlPlane, place: Path, *, url: str | None = None, token: str | None = None) -> Path:
    """Writes the kubeconfig of *plane* to *place*, with another way to it or another login."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    if url is not None:
        config["clusters"][0]["cluster"]["server"] = url
    if token is not None:
        config["users"][0]["user"] = {"token": token}
    place.write_text(yaml.safe_dump(config))
    return place
