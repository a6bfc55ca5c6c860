"""HTTP to the server: JSON in and out, text as a stream of lines.

While one server hands over to another there is none for some seconds, so a call is repeated if that cannot do anything twice:
calls that only read, that carry a key, or that surely reached nobody.

On the standard library: importing it takes a quarter of the time that a client library takes, and each command is a process.
"""

import codecs
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from runrig import __version__
from runrig.client.failure import ServerSaid, server_said
from runrig.client.server_address import Address
from runrig.domain.errors import InvalidInput, RunrigError, ServerFault

Value = str | int | bool | None | Iterable[str]
Query = Mapping[str, Value]

ANSWER_S = 60.0
RETRY = "RUNRIG_RETRY_S"
PATIENCE_S = 15.0
"""A standby takes over within 10 s."""
LONGEST_PATIENCE_S = 3600.0
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
_CHUNK = 65536


def path(*parts: str) -> str:
    """``/api/a/b`` with each part quoted, so that a name cannot change the path."""
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


class _Call(NamedTuple):
    method: str
    path: str
    body: Any
    query: Query | None
    timeout_s: float | None
    key: str | None = None

    @property
    def harmless(self) -> bool:
        """True if sending it twice does no more than once."""
        return self.method == "GET" or self.key is not None


class Transport:
    """*token* None: calls carry none, and the server says what it thinks of that.  *token_hint*: where to find a valid one."""

    def __init__(self, address: Address, token: str | None, token_hint: str = "", *, patience_s: float = 0.0) -> None:
        """*patience_s*: how long to wait for a server that is not there."""
        self._address = address
        self._patience_s = patience_s
        self._token = token
        self._token_hint = token_hint

    @property
    def url(self) -> str:
        return self._address.url

    def get(self, path: str, query: Query | None = None, *, timeout_s: float = ANSWER_S) -> Any:
        return self.call("GET", path, query=query, timeout_s=timeout_s)

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Query | None = None,
        timeout_s: float = ANSWER_S,
        key: str | None = None,
    ) -> Any:
        """The JSON of the answer.  Raises the server's error, or ServerFault if the answer is not a runrig server's.

        *key*: a new UUID, by which the server recognises the call when it is repeated.
        """
        call = _Call(method, path, body, query, timeout_s, key)
        text = "".join(self._stream(call))
        try:
            return json.loads(text)
        except ValueError:
            raise self._stranger(text) from None

    def lines(self, path: str, query: Query | None = None) -> Iterator[str]:
        """Yields the lines of a text as they arrive, without line ends, for as long as the server sends."""
        rest = ""
        for piece in self._stream(_Call("GET", path, None, query, None)):
            *whole, rest = (rest + piece).split("\n")
            yield from whole
        if rest:
            yield rest

    def text(self, path: str, query: Query | None = None) -> str:
        return "".join(self._stream(_Call("GET", path, None, query, ANSWER_S)))

    def socket_address(self, path: str) -> tuple[str, dict[str, str]]:
        """URL and headers of a WebSocket."""
        parts = urlsplit(self.url + path)
        headers = self._headers()
        return parts._replace(scheme="wss" if parts.scheme == "https" else "ws").geturl(), {
            name: headers[name] for name in ("User-Agent", "Authorization") if name in headers
        }

    def _stream(self, call: "_Call") -> Iterator[str]:
        connection, response = self._answered(call)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while chunk := response.read1(_CHUNK):
                yield decoder.decode(chunk)
            yield decoder.decode(b"", final=True)
        except (OSError, http.client.HTTPException) as error:
            raise self._silence(error) from None
        finally:
            connection.close()

    def _answered(self, call: "_Call") -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """The beginning of a successful answer; tries again while there is patience left."""
        end, pause_s = time.monotonic() + self._patience_s, FIRST_PAUSE_S
        while True:
            connection = _connection(urlsplit(self.url), call.timeout_s)
            failure: RunrigError
            try:
                response = self._asked(connection, call)
                if response.status == 200:
                    return connection, response
                body = response.read(_CHUNK * 16).decode("utf-8", "replace")
                failure = self._refusal(response.status, body)
                again = response.status == 503 and (call.harmless or response.headers["Retry-After"] is not None)
            except (OSError, http.client.HTTPException) as error:
                failure, again = self._silence(error), call.harmless or isinstance(error, ConnectionRefusedError)
            connection.close()
            if not again or time.monotonic() + pause_s > end:
                raise failure
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _asked(self, connection: http.client.HTTPConnection, call: "_Call") -> http.client.HTTPResponse:
        target = urlsplit(self.url).path + call.path + _encoded(call.query)
        body = None if call.body is None else json.dumps(call.body).encode()
        headers = self._headers() | ({"Idempotency-Key": call.key} if call.key else {})
        # A server that refuses a body answers before reading it all, and takes no more.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(call.method, target, body=body, headers=headers)
        return connection.getresponse()

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"runrig/{__version__}", "Content-Type": "application/json", "Accept": "*/*"}
        return headers | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _refusal(self, status: int, body: str) -> RunrigError:
        error = server_said(status, body)
        wanting = status == 401 or (status == 403 and not self._token)
        if not wanting or not isinstance(error, ServerSaid):
            return error
        sent = "the one that was sent is not good" if self._token else "no token was sent"
        return ServerSaid(
            f"{error.message} ({sent}{self._token_hint})",
            error.details,
            code=error.code,
            exit_code=error.exit_code,
            problems=(),
        )

    def _stranger(self, text: str) -> ServerFault:
        return ServerFault(
            f"{self.url} (from {self._address.source}) answers, but not like a runrig server ({text.strip()[:60]!r}): "
            "name the address of one with --server"
        )

    def _silence(self, error: OSError | http.client.HTTPException) -> ServerFault:
        return ServerFault(
            f"no runrig server answers at {self.url} (from {self._address.source}; {_cause(error)}): "
            "start one with 'runrig up', or name its address with --server"
        )


def patience(address: Address, environment: Mapping[str, str]) -> float:
    """Seconds to wait: RUNRIG_RETRY_S, else long enough for a takeover if the server is elsewhere, and none on this machine."""
    value = environment.get(RETRY)
    if not value:
        return 0.0 if address.loopback else PATIENCE_S
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_PATIENCE_S:
        raise InvalidInput.one(f"{RETRY} is {value!r}: write seconds, 0 to {LONGEST_PATIENCE_S:.0f}")
    return seconds


def _connection(parts: SplitResult, timeout_s: float | None) -> http.client.HTTPConnection:
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _cause(error: OSError | http.client.HTTPException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, ConnectionError | http.client.HTTPException):
        return "it closed the connection"
    return error.strerror or str(error) or type(error).__name__


def _encoded(query: Query | None) -> str:
    """``?a=1&a=2``; None and empty lists are left out, booleans are ``True`` and ``False``."""
    pairs = [(name, one) for name, value in (query or {}).items() for one in _values(value)]
    return "?" + urlencode(pairs) if pairs else ""


def _values(value: Value) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str | int):
        return [str(value)]
    return list(value)
