"""A real receiver of webhooks on this machine, with a certificate that only the test trusts."""

import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.patience import PATIENCE_S

HERE = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@dataclass
class Receiver:
    """*answers*: status of each request in turn, then 204. *got*: (headers, body). *free*: while it is not set, requests
    to /slow are not answered.
    """

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)
    free: threading.Event = field(default_factory=threading.Event)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]

    def wait(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.got) >= count, PATIENCE_S), self.got


@contextmanager
def receiving(folder: Path) -> Iterator[tuple[Receiver, ssl.SSLContext]]:
    """The receiver, and what trusts it."""
    serves, trusts = certificates(folder)
    there = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/slow":
                there.free.wait()
                return
            if self.path in ("/endless", "/garbage"):
                self.wfile.write(
                    b"HTTP/1.1 200 OK\r\nX-One: 1\r\n" if self.path == "/endless" else b"\x1b[31m220 SMTP\n"
                )
                self.wfile.flush()
                if self.path == "/endless":
                    there.free.wait()
                return
            with there.arrived:
                there.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status = there.answers.pop(0) if there.answers else 204
                there.arrived.notify_all()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            large = b"x" * 100_000 if self.path == "/large" else b""
            self.send_header("Content-Length", str(len(large)))
            self.end_headers()
            self.wfile.write(large)

        def log_message(self, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = serves.wrap_socket(server.socket, server_side=True)
    there.url = f"https://localhost:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield there, trusts
    finally:
        there.free.set()
        server.shutdown()
        server.server_close()


def certificates(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "receiver.pem"
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem))
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(file)
    return serves, ssl.create_default_context(cadata=certificate.public_bytes(pem).decode())
