"""HTTP to the identity provider: one request, one small response, within a strict time limit.

Does not follow redirects. Uses the proxy in the environment, like other programs (HTTPS_PROXY, NO_PROXY).
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from runrig.domain.errors import Unavailable

LARGEST = 512 * 1024
"""Maximum bytes of a response."""


class ProviderSilent(Unavailable):
    """The provider's response is missing, late or too large. *retry_after_s*: an estimate."""

    def __init__(self, message: str) -> None:
        super().__init__(message, {"retry_after_s": 5})


@dataclass(frozen=True, slots=True)
class Fetched:
    status: int
    body: bytes


def fetch(url: str, form: Mapping[str, str] | None, timeout_s: float) -> Fetched:
    """Returns the response to a GET, or to a POST of *form*. Raises ProviderSilent after *timeout_s* at the latest."""
    exchange = _Exchange(url, form, timeout_s)
    exchange.start()
    exchange.join(timeout_s)
    if exchange.answer is not None:
        return exchange.answer
    why = exchange.failure or f"no complete response within {timeout_s:.1f} s"
    exchange.hang_up()
    raise ProviderSilent(f"the identity provider does not respond at {url} ({why})")


class _Exchange(threading.Thread):
    """Runs in its own thread, because a DNS lookup or a slow response cannot be interrupted otherwise."""

    def __init__(self, url: str, form: Mapping[str, str] | None, timeout_s: float) -> None:
        super().__init__(name="provider", daemon=True)
        self.answer: Fetched | None = None
        self.failure = ""
        self._url = url
        self._form = form
        self._connection = _connection(url, timeout_s + 1)  # The waiting side times out first and reports it.

    def run(self) -> None:
        try:
            self.answer = self._ask()
        except (
            OSError,
            http.client.HTTPException,
            ValueError,
        ) as error:  # ValueError: a host or form that cannot be sent.
            self.failure = str(error) or type(error).__name__
        finally:
            self._connection.close()

    def _ask(self) -> Fetched | None:
        parts = urlsplit(self._url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Accept": "application/json", "User-Agent": "runrig"}
        if self._form is None:
            self._connection.request("GET", target, headers=headers)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            self._connection.request("POST", target, urlencode(self._form), headers)
        response = self._connection.getresponse()
        body = response.read(LARGEST + 1)
        if len(body) > LARGEST:
            self.failure = f"more than {LARGEST // 1024} KiB"
            return None
        if response.length:
            self.failure = "the response was cut off"
            return None
        return Fetched(response.status, body)

    def hang_up(self) -> None:
        """Interrupts what the thread waits for."""
        connected = self._connection.sock
        if connected is not None:
            with suppress(OSError):  # The plain socket, because the TLS state belongs to the thread.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    proxy = None if proxy_bypass(host) else getproxies().get("https")
    if proxy is None:
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=_tls())
    through = urlsplit(proxy)
    connection = http.client.HTTPSConnection(through.hostname or "", through.port, timeout=timeout_s, context=_tls())
    connection.set_tunnel(host, parts.port or 443)
    return connection


@lru_cache
def _tls() -> ssl.SSLContext:
    """The certificates trusted by this machine, or those in SSL_CERT_FILE."""
    return ssl.create_default_context()
