"""A provider of identities that lies as a test wants it to: what no honest one does, and an attacker in its place might."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

NONCE = "0123456789abcdef"
ACCESS = "an-access-token"
Answer = tuple[int, dict[str, str], bytes | Iterator[bytes]]


class Forger:
    """*document*, *keys*, *claims*, *header*: as an honest provider has them, to be changed.  *asked*: paths, in order.

    *answers*: by path, instead of the usual ones.
    """

    def __init__(self, origin: str) -> None:
        self.issuer = f"{origin}/o"
        self.asked: list[str] = []
        self.answers: dict[str, Callable[[], Answer]] = {}
        self.document: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "device_authorization_endpoint": f"{self.issuer}/device",
            "code_challenge_methods_supported": ["S256"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }
        self.key: Any = some_key()
        self.keys = [public(self.key)]
        self.algorithm = "RS256"
        self.header: dict[str, Any] = {"kid": "k"}
        now = int(time.time())
        self.claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": "42",
            "aud": "runrig",
            "exp": now + 300,
            "iat": now,
            "nonce": NONCE,
            "preferred_username": "mallory",
            "groups": ["root"],
            "at_hash": half_hash(ACCESS),
        }
        self.token: Callable[[], str] = self.signed

    def signed(self) -> str:
        return jwt.encode(self.claims, self.key, self.algorithm, self.header)

    def answer(self, path: str) -> Answer:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]()
        match path.removeprefix("/o"):
            case "/.well-known/openid-configuration":
                return said(self.document)
            case "/jwks":
                return said({"keys": self.keys})
            case "/token":
                return said({"id_token": self.token(), "access_token": ACCESS, "refresh_token": "a-refresh-token"})
        return 404, {}, b""


def said(value: object, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


@lru_cache
def some_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def public(key: rsa.RSAPrivateKey, id: str = "k") -> dict[str, Any]:
    return {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": id, "use": "sig"}


def half_hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).rstrip(b"=").decode()


@contextmanager
def forger() -> Iterator[Forger]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = made.answer(self.path)
            self.send_response(status)
            length = {} if isinstance(body, Iterator) else {"Content-Length": str(len(body))}
            for name, value in {**length, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in body if isinstance(body, Iterator) else [body]:
                self.wfile.write(piece)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Says nothing: the caller has hung up."""

    with Server(("127.0.0.1", 0), Handler) as server:
        made = Forger(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
