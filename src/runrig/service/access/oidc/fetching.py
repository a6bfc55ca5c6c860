"""HTTP to the identity provider: one request, one small response, within a strict time limit.

Does not follow redirects. Uses the proxy in the environment, like other programs (HTTPS_PROXY, NO_PROXY).
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from runrig.domain.errors import Unavailable

LARGEST = 512 * 1024
"""Maximum bytes of a response."""

_FAILURES = (OSError, ValueError, http.client.HTTPException)
"""A ValueError: a host or form that cannot be sent."""


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
    connection = _connection(url, timeout_s + 1)  # The waiting side times out first and reports it.
    found: Future[Fetched] = Future()
    # In its own thread, because a DNS lookup or a slow response cannot be interrupted otherwise.
    threading.Thread(target=_ask, args=(connection, url, form, found), name="provider", daemon=True).start()
    try:
        return found.result(timeout_s)
    except TimeoutError:
        why = f"no complete response within {timeout_s:.1f} s"
    except _FAILURES as error:
        why = str(error) or type(error).__name__
    if (connected := connection.sock) is not None:
        with suppress(OSError):  # The plain socket, because the TLS state belongs to the thread.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)
    raise ProviderSilent(f"the identity provider does not respond at {url} ({why})")


def _ask(
    connection: http.client.HTTPConnection, url: str, form: Mapping[str, str] | None, found: "Future[Fetched]"
) -> None:
    try:
        found.set_result(_answer(connection, url, form))
    except _FAILURES as error:
        found.set_exception(error)
    finally:
        connection.close()


def _answer(connection: http.client.HTTPConnection, url: str, form: Mapping[str, str] | None) -> Fetched:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": "application/json", "User-Agent": "runrig"}
    if form is None:
        connection.request("GET", target, headers=headers)
    else:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request("POST", target, urlencode(form), headers)
    with connection.getresponse() as response:
        body = response.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise OSError(f"more than {LARGEST // 1024} KiB")
        if response.length:
            raise OSError("the response was cut off")
        return Fetched(response.status, body)


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
