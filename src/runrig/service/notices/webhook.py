"""Sends one document to an address that a user chose.

A server that calls where users say is an open door, so the address is resolved once, checked, and connected to as it
was resolved. It does not follow redirects and uses no proxy.
"""

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

from runrig.domain.errors import InvalidInput
from runrig.domain.notices import DELIVERED

TIMEOUT_S = 5.0
LARGEST = 64 * 1024
"""Maximum bytes of an answer."""
LONGEST_ADDRESS = 1000
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def check_address(url: str) -> None:
    """Raises InvalidInput unless *url* is an https address without user and fragment."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc and not parts.fragment
        (parts.hostname or "").encode("idna")  # Raises UnicodeError for a name that cannot be looked up.
        usable = bool(fine) and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        usable = False
    if not usable or len(url) > LONGEST_ADDRESS:
        raise InvalidInput.one(f"{url!r:.80} is not an https address. Use https://HOST/PATH, or a mail address", "to")


class Webhook:
    """*allow*: private networks to which notices can be sent."""

    def __init__(self, allow: Sequence[Network] = (), tls: ssl.SSLContext | None = None) -> None:
        self._allow = allow
        self._tls = tls
        self._lock = threading.Lock()
        self._lookups: dict[tuple[str, int], Future[list[Address]]] = {}
        """Lookups that have not ended."""

    def check(self, url: str) -> None:
        """As `check_address`; also refuses an IP address to which nothing would be sent. Does not resolve names."""
        check_address(url)
        with suppress(ValueError):
            private = self._private(urlsplit(url).hostname or "", ipaddress.ip_address(urlsplit(url).hostname or ""))
            if private:
                raise InvalidInput.one(private, "to")

    def send(self, url: str, body: str, secret: str, delivery: str) -> str:
        """Returns DELIVERED, or why it was not. Takes twice `TIMEOUT_S` at most: for the DNS lookup, and for the answer."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
        try:
            address = self._resolved(host, port)
            if isinstance(address, str):
                return address
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            return self._posted(_Pinned(host, port, address, self._tls or _trusted()), target, body, secret, delivery)
        except TimeoutError:
            return f"{host} did not answer within {TIMEOUT_S:.0f} s"
        except http.client.HTTPException as error:  # Its text can contain any bytes that the receiver sent.
            return f"{host} gave no valid HTTP answer ({type(error).__name__})"
        except (OSError, UnicodeError) as error:
            return f"{host} cannot be reached ({getattr(error, 'strerror', None) or error or type(error).__name__})"

    def _resolved(self, host: str, port: int) -> Address | str:
        """Returns the address to connect to, or why there is none. One private address among several is enough to refuse."""
        try:
            found = self._lookup(host, port).result(TIMEOUT_S)
        except TimeoutError:
            return f"the DNS lookup of {host} did not end within {TIMEOUT_S:.0f} s"
        return next(filter(None, (self._private(host, address) for address in found)), found[0])

    def _lookup(self, host: str, port: int) -> "Future[list[Address]]":
        """Starts a lookup in a new thread, because nothing can interrupt it. Later attempts share a lookup that hangs."""
        with self._lock:
            looking = self._lookups.get((host, port))
            if looking is None:
                looking = self._lookups[host, port] = Future()
                threading.Thread(target=self._look_up, args=(host, port, looking), daemon=True, name="dns").start()
            return looking

    def _look_up(self, host: str, port: int, found: "Future[list[Address]]") -> None:
        try:
            every = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [ipaddress.ip_address(each[4][0]) for each in every]
        except (OSError, ValueError) as error:  # A UnicodeError is a ValueError.
            self._forget(host, port)
            found.set_exception(error)
        else:
            self._forget(host, port)
            found.set_result(addresses)

    def _forget(self, host: str, port: int) -> None:
        with self._lock:
            del self._lookups[host, port]

    def _private(self, host: str, address: Address) -> str:
        """Returns why nothing is sent to *address*; "" if notices can be sent there."""
        if is_public(address) or any(address in network for network in self._allow):
            return ""
        return f"{host} has the private address {address}. An admin can allow it: notify.allow in serve.yaml"

    def _posted(self, connection: "_Pinned", target: str, body: str, secret: str, delivery: str) -> str:
        late = threading.Timer(TIMEOUT_S, connection.hang_up)
        late.daemon = True
        late.start()
        content = body.encode()
        signature = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "runrig",
            "X-Runrig-Delivery": delivery,
            "X-Runrig-Signature": f"sha256={signature}",
            "Connection": "close",
        }
        try:
            connection.request("POST", target, content, headers)
            answer = connection.getresponse()
            if len(answer.read(LARGEST + 1)) > LARGEST:
                return f"{connection.host} answered with more than {LARGEST // 1024} KiB"
            if connection.late:  # What was cut off can look complete.
                raise TimeoutError
        except (OSError, http.client.HTTPException):
            if connection.late:
                raise TimeoutError from None
            raise
        finally:
            late.cancel()
            connection.close()
        if 300 <= answer.status < 400:
            return f"{connection.host} answered with a redirect ({answer.status}), which is not followed"
        return DELIVERED if answer.status < 300 else f"{connection.host} answered with status {answer.status}"


def is_public(address: Address) -> bool:
    """Whether *address*, and the IPv4 address inside it if it has one, is reachable by everyone."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


class _Pinned(http.client.HTTPSConnection):
    """Connects to *address*, and checks the certificate of *host*."""

    def __init__(self, host: str, port: int, address: Address, tls: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=TIMEOUT_S, context=tls)
        self._address = address
        self._secure = tls
        self.late = False

    def connect(self) -> None:
        self.sock = socket.create_connection((str(self._address), self.port), self.timeout)
        self.sock = self._secure.wrap_socket(self.sock, server_hostname=self.host)

    def hang_up(self) -> None:
        """Interrupts a slow answer."""
        self.late = True
        connected = self.sock
        if connected is not None:
            with suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)


@lru_cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()
