"""HTTP to the server: JSON in and out, text as a stream of lines.

On the standard library: importing it takes a quarter of the time that a client library takes, and each command is a process.
"""

import codecs
import http.client
import json
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from runrig import __version__
from runrig.cli.failure import ServerSaid, server_said
from runrig.cli.place import Address
from runrig.domain.errors import RunrigError, ServerFault

Value = str | int | bool | None | Iterable[str]
Query = Mapping[str, Value]

ANSWER_S = 60.0
_CHUNK = 65536


def path(*parts: str) -> str:
    """``/api/a/b`` with each part quoted, so that no name can leave its place."""
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


class Client:
    """*token* None: calls go without, and the server says what it thinks of that.  *token_hint*: where one would be found."""

    def __init__(self, address: Address, token: str | None, token_hint: str = "") -> None:
        self._address = address
        self._token = token
        self._token_hint = token_hint

    @property
    def url(self) -> str:
        return self._address.url

    def get(self, path: str, query: Query | None = None, *, timeout_s: float = ANSWER_S) -> Any:
        return self.call("GET", path, query=query, timeout_s=timeout_s)

    def call(
        self, method: str, path: str, *, body: Any = None, query: Query | None = None, timeout_s: float = ANSWER_S
    ) -> Any:
        """The JSON of the answer.  Raises what the server said, or ServerFault if it does not answer like one."""
        text = "".join(self._stream(method, path, body=body, query=query, timeout_s=timeout_s))
        try:
            return json.loads(text)
        except ValueError:
            raise self._stranger(text) from None

    def lines(self, path: str, query: Query | None = None) -> Iterator[str]:
        """The lines of a text as they arrive, without their ends; for as long as the server sends."""
        rest = ""
        for piece in self._stream("GET", path, query=query, timeout_s=None):
            *whole, rest = (rest + piece).split("\n")
            yield from whole
        if rest:
            yield rest

    def text(self, path: str, query: Query | None = None) -> str:
        return "".join(self._stream("GET", path, query=query, timeout_s=ANSWER_S))

    def _stream(
        self, method: str, path: str, *, body: Any = None, query: Query | None = None, timeout_s: float | None
    ) -> Iterator[str]:
        parts = urlsplit(self.url)
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, timeout_s)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            # A server that refuses a body answers before it has read it, and takes no more.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(
                    method,
                    parts.path + path + _encoded(query),
                    body=None if body is None else json.dumps(body).encode(),
                    headers=self._headers(),
                )
            response = connection.getresponse()
            if response.status != 200:
                raise self._refusal(response.status, response.read(_CHUNK * 16).decode("utf-8", "replace"))
            while chunk := response.read1(_CHUNK):
                yield decoder.decode(chunk)
            yield decoder.decode(b"", final=True)
        except (OSError, http.client.HTTPException) as error:
            raise self._silence(error) from None
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"runrig/{__version__}", "Content-Type": "application/json", "Accept": "*/*"}
        return headers | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _refusal(self, status: int, body: str) -> RunrigError:
        error = server_said(status, body)
        if status not in (401, 403) or self._token or not isinstance(error, ServerSaid):
            return error
        return ServerSaid(
            f"{error.message} (no token was sent{self._token_hint})",
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


def _connection(scheme: str, host: str, port: int | None, timeout_s: float | None) -> http.client.HTTPConnection:
    if scheme == "https":
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
