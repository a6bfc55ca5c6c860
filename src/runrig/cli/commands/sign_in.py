"""Sign-in with the identity provider for `runrig login`: in a browser on this machine, or on another device.

The code returns to a loopback port (RFC 8252), which accepts only the answer to its own request, identified by `state`.
PKCE and the nonce bind the code and the ID token to this process.
"""

import base64
import hashlib
import hmac
import os
import secrets
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import warn
from runrig.client.sign_in import SIGN_IN
from runrig.client.transport import Transport
from runrig.domain.errors import Conflict, NotAllowed, ServerFault, Unavailable

PATIENCE_S = 300.0
"""Seconds a user has for the provider's forms."""
_ANSWER_S = 20.0
_HEAD_S = 5.0
_PAGE = "<!doctype html><meta charset=utf-8><title>runrig</title><p>{}"


def signed_in(transport: Transport, *, device: bool) -> Mapping[str, Any]:
    """Returns the server's answer to the sign-in. *device*: without a browser on this machine."""
    offer = transport.get(SIGN_IN, timeout_s=_ANSWER_S)
    if device or (offer["device"] and not _has_display()):
        return _by_device(transport)
    return _by_code(transport, offer)


def _has_display() -> bool:
    if "SSH_CONNECTION" in os.environ:
        return False
    if not sys.platform.startswith("linux"):
        return True
    return any(os.environ.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


# ---------------------------------------------------------------- with a browser here


def _by_code(transport: Transport, offer: Mapping[str, Any]) -> Mapping[str, Any]:
    verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    with _Return(offer["issuer"]) as server:
        url = _address(offer, server, verifier, nonce)
        warn(sanitize.line(f"sign in at {url}"))
        # A browser in the terminal ends only after this program continues.
        threading.Thread(target=_open, args=(url,), daemon=True).start()
        code = server.code()
    body = {"code": code, "code_verifier": verifier, "redirect_uri": server.uri, "nonce": nonce}
    return _answer(transport, "code", body)


def _address(offer: Mapping[str, Any], server: "_Return", verifier: str, nonce: str) -> str:
    endpoint = offer["authorization_endpoint"]
    if urlsplit(endpoint).scheme not in ("http", "https"):
        raise ServerFault(f"the server sends the browser to {endpoint!r}, which is not a web address")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": offer["client_id"],
        "redirect_uri": server.uri,
        "scope": offer["scope"],
        "state": server.state,
        "nonce": nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"


def _open(url: str) -> None:
    import webbrowser

    try:
        webbrowser.open(url)
    except webbrowser.Error:
        warn("no browser could be opened. Open the address in a browser on this machine, or use --device.")


class _Return(HTTPServer):
    """The address to which the browser returns."""

    timeout = 1.0

    def __init__(self, issuer: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.uri = f"http://127.0.0.1:{self.server_address[1]}/"
        self.state = secrets.token_urlsafe(24)
        self._issuer = issuer
        self._sent: Mapping[str, str] | None = None

    def code(self) -> str:
        """Waits for the code. Raises NotAllowed if the provider refuses, Unavailable on timeout."""
        end = time.monotonic() + PATIENCE_S
        while self._sent is None:
            if time.monotonic() > end:
                raise Unavailable(
                    f"sign-in was not completed within {PATIENCE_S:.0f} s. Run the command again when you are ready."
                )
            self.handle_request()
        if "code" not in self._sent:
            error = self._sent.get("error", "no code")
            raise NotAllowed(sanitize.line(f"the identity provider refused: {error[:100]}"))
        if self._sent.get("iss", self._issuer) != self._issuer:
            raise NotAllowed(f"the response is not from {self._issuer}; it is ignored")
        return self._sent["code"]

    def takes(self, target: str) -> bool:
        """Returns True for the first answer to its own request."""
        parts = urlsplit(target)
        sent = {name: values[0] for name, values in parse_qs(parts.query).items()}
        own = hmac.compare_digest(sent.get("state", "").encode("utf-8", "replace"), self.state.encode())
        if parts.path != "/" or not own or self._sent is not None:
            return False
        self._sent = sent
        return True

    def handle_error(self, *_: Any) -> None:
        """Ignores browsers that hang up and connections that do not speak HTTP."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _HEAD_S
    server: _Return

    def do_GET(self) -> None:
        good = self.server.takes(self.path)
        text = "You may close this window." if good else "This is not the sign-in that runrig is waiting for."
        body = _PAGE.format(text).encode()
        self.send_response(200 if good else 400)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "Connection": "close",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Logs nothing, because the address contains the code."""


# ---------------------------------------------------------------- without one


def _by_device(transport: Transport) -> Mapping[str, Any]:
    started = transport.call("POST", f"{SIGN_IN}/device", timeout_s=_ANSWER_S)
    where = started["verification_uri_complete"] or started["verification_uri"]
    warn(sanitize.line(f"open {where} on any machine and confirm the code {started['user_code']}"))
    pause_s, end = started["interval_s"], time.monotonic() + started["expires_in_s"]
    while time.monotonic() < end:
        time.sleep(pause_s)
        try:
            return _answer(transport, "device/token", {"device_code": started["device_code"]})
        except Conflict as error:
            if "pending" not in error.details:
                raise
            pause_s += 5 if error.details.get("slower") else 0
    raise Unavailable(
        f"the code was not confirmed within {started['expires_in_s']} s. Run the command again when you are ready."
    )


def _answer(transport: Transport, route: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = transport.call("POST", f"{SIGN_IN}/{route}", body=body, timeout_s=_ANSWER_S)
    return answer
