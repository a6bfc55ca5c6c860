"""Calls to one server: JSON in and out, or text as it arrives.

During a handover no server responds for some seconds. Calls that are safe to repeat are retried: reads, calls with a
key, and calls that certainly reached no server.
"""

import codecs
import json
import socket
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import h11

from runrig import __version__
from runrig.client.exchange import BROKEN, Exchange, Head, Meanwhile
from runrig.client.failure import NoAnswer, server_said
from runrig.client.network import KeptToken, Network, Stream
from runrig.client.saved import PORTS
from runrig.client.server_address import Address
from runrig.domain.errors import RunrigError

if TYPE_CHECKING:
    import ssl

Value = str | int | bool | None | Collection[str]
Query = Mapping[str, Value]
Token = str | KeptToken | None

ANSWER_S = 60.0
PLAN_S = 600.0
"""Planning for a large cluster is slow, and the server sends nothing until it is done."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
PAGE = 1000
"""Items that a list requests per page."""
MOST_IDLE = 4
"""Idle connections to keep for later calls."""
_LARGEST_ERROR = 1024 * 1024
_EMPTY = 204
"""The status of answers without a body; all others are objects."""


class Request(NamedTuple):
    """*timeout_s*: for each piece of the response; None: no timeout. *key*: a new UUID, by which the server recognises
    a repeated call. *body*: sent as JSON; bytes are sent as they are, compressed by the caller.
    """

    method: str
    path: str
    query: Query | None = None
    body: Any = None
    timeout_s: float | None = ANSWER_S
    key: str | None = None
    headers: Mapping[str, str] = {}

    @property
    def harmless(self) -> bool:
        """Whether it is safe to send twice."""
        return self.method in ("GET", "HEAD") or self.key is not None


class Answer(NamedTuple):
    """*json*: ``{}`` for an empty response. *etag* None: the response has none."""

    json: dict[str, Any]
    etag: str | None


class Caller:
    """*token* None: calls are sent without a token.

    *token_hint*: where to find a valid token. *patience_s*: how long to wait for an unreachable server, in seconds.
    *keeps*: reuse connections until `close`. *page*: items per page of a list.
    """

    def __init__(
        self,
        network: Network,
        address: Address,
        token: Token,
        token_hint: str = "",
        *,
        patience_s: float = 0.0,
        tls: "ssl.SSLContext | None" = None,
        keeps: bool = False,
        page: int = PAGE,
    ) -> None:
        self.address = address
        self.page = page
        self.patience_s = patience_s
        self.network = network
        self._token = token
        self._token_sent: str | None = None
        self._token_hint = token_hint
        self._tls = tls
        self._keeps = keeps
        self._idle: list[Exchange] = []

    def close(self) -> None:
        self._keeps = False
        while self._idle:
            self._idle.pop().close()

    async def answer(self, request: Request) -> Answer:
        """Raises the server's error, or NoAnswer if no runrig server responds."""
        exchange, head = await self._answered(request)
        text = "".join([piece async for piece in self._text(exchange)])
        try:
            plain = {} if head.status == _EMPTY else json.loads(text)
        except (ValueError, RecursionError):
            plain = text
        if not isinstance(plain, dict) or not isinstance(plain.get("items", []), list):
            raise self._stranger(text)
        return Answer(plain, head.headers.get("etag"))

    async def items(
        self, path: str, query: Query | None = None, most: int | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yields the items of the list at *path*, page by page; *most* None: all of them. Raises KeyError if the response is not a list."""
        cursor, left = None, most
        while left is None or left > 0:
            limit = self.page if left is None else min(left, self.page)
            found = (await self.answer(Request("GET", path, {**(query or {}), "limit": limit, "cursor": cursor}))).json
            for item in found["items"]:
                yield item
            cursor = found["next_cursor"]
            if cursor is None:
                return
            left = None if left is None else left - len(found["items"])

    async def pieces(self, request: Request) -> AsyncGenerator[str, None]:
        """Yields the text of the response as it arrives, until the server ends it."""
        exchange, _ = await self._answered(request)
        follows = self._good_token if request.timeout_s is None else None  # else the token expires
        async with aclosing(self._text(exchange, follows)) as pieces:  # close it even after an early stop
            async for piece in pieces:
                yield piece

    async def lines(self, request: Request) -> AsyncGenerator[str, None]:
        """Yields the same, line by line, without line ends."""
        rest = ""
        async with aclosing(self.pieces(request)) as pieces:
            async for piece in pieces:
                *whole, rest = (rest + piece).split("\n")
                for line in whole:
                    yield line
        if rest.strip():  # Spaces keep a stream alive.
            yield rest

    async def raw(self, request: Request) -> AsyncGenerator[bytes, None]:
        """Yields the bytes of the response as they arrive."""
        exchange, _ = await self._answered(request)
        async with aclosing(self._bytes(exchange)) as pieces:
            async for piece in pieces:
                yield piece

    async def _text(self, exchange: Exchange, meanwhile: Meanwhile | None = None) -> AsyncGenerator[str, None]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async with aclosing(self._bytes(exchange, meanwhile)) as pieces:
            async for piece in pieces:
                yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)

    async def _bytes(self, exchange: Exchange, meanwhile: Meanwhile | None = None) -> AsyncGenerator[bytes, None]:
        kept = False
        try:
            async for piece in exchange.pieces(meanwhile):
                yield piece
            kept = self._keeps and len(self._idle) < MOST_IDLE and exchange.renewed()
            if kept:
                self._idle.append(exchange)
        except BROKEN as error:
            raise self._silence(error) from None
        finally:
            if not kept:
                exchange.close()

    async def _answered(self, request: Request) -> tuple[Exchange, Head]:
        """Returns the start of a successful response. Retries within the server's patience."""
        end, pause_s = time.monotonic() + self.patience_s, FIRST_PAUSE_S
        while True:
            failure: RunrigError
            try:
                exchange, head = await self._asked(request)
                if 200 <= head.status < 300:
                    return exchange, head
                failure = await self._refusal(exchange, head.status)
                again = head.status == 503 and (request.harmless or "retry-after" in head.headers)
            except BROKEN as error:
                failure, again = self._silence(error), request.harmless or isinstance(error, ConnectionRefusedError)
            if not again or time.monotonic() + pause_s > end:
                raise failure
            await self.network.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _asked(self, request: Request) -> tuple[Exchange, Head]:
        headers = await self.headers()  # Before connecting, because servers drop idle connections.
        exchange = self._kept() if request.harmless else None
        if exchange is not None:
            try:  # The server may have closed it since the last call.
                return exchange, await self._sent(exchange, request, headers)
            except BROKEN as error:
                if isinstance(error, TimeoutError):
                    raise
        exchange = Exchange(await self._connected(request.timeout_s))
        return exchange, await self._sent(exchange, request, headers)

    def _kept(self) -> Exchange | None:
        """Returns an idle connection, None if there is none. Thread-safe."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    async def _sent(self, exchange: Exchange, request: Request, always: Mapping[str, str]) -> Head:
        parts = urlsplit(self.address.url)
        packed = isinstance(request.body, bytes)
        body = request.body if request.body is None or packed else json.dumps(request.body).encode()
        try:
            headers = {
                "Host": parts.netloc.rpartition("@")[2],
                **always,
                "Content-Type": "application/gzip" if packed else "application/json",
                "Accept": "*/*",
            }
            headers |= {**request.headers, **({"Idempotency-Key": request.key} if request.key else {})}
            headers |= {} if self._keeps else {"Connection": "close"}
            target = parts.path + request.path + _encoded(request.query)
            return await exchange.ask(request.method, target, headers, body, request.timeout_s)
        except BaseException:
            exchange.close()
            raise

    async def _connected(self, timeout_s: float | None) -> Stream:
        parts = urlsplit(self.address.url)
        if parts.scheme == "https" and self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        tls = self._tls if parts.scheme == "https" else None
        return await self.network.connect(parts.hostname or "", parts.port or PORTS[parts.scheme], tls, timeout_s)

    async def headers(self) -> dict[str, str]:
        """Returns the headers of every request. Raises as `KeptToken.renew`, and NoAnswer if there is no server to ask."""
        if self.address.missing is not None:
            raise NoAnswer(self.address.missing)
        self._token_sent = await self._good_token()
        return {"User-Agent": f"runrig/{__version__}"} | (
            {"Authorization": f"Bearer {self._token_sent}"} if self._token_sent else {}
        )

    async def _good_token(self) -> str | None:
        if self._token is None or isinstance(self._token, str):
            return self._token
        if self._token.is_due:
            await self.network.renew(self._token)
        return self._token.token

    async def _refusal(self, exchange: Exchange, status: int) -> RunrigError:
        body = b""
        try:
            async for piece in exchange.pieces():
                body += piece
                if len(body) > _LARGEST_ERROR:
                    break
        finally:
            exchange.close()
        if status < 400:  # Redirects are not followed, because a proxy's login page has no use for the token.
            return self._stranger(f"status {status}")
        remark = ""
        if status == 401:
            remark = "invalid token" if self._token_sent else "no token was sent"
            remark = f" ({remark}{self._token_hint})"
        return server_said(status, body.decode("utf-8", "replace"), remark)

    def _stranger(self, text: str) -> NoAnswer:
        return NoAnswer(
            f"{self.address.url} (from {self.address.source}) is not a runrig server ({text.strip()[:60]!r}). "
            "Set the server address with --server"
        )

    def _silence(self, error: Exception) -> NoAnswer:
        url, source, cause = self.address.url, self.address.source, _cause(error)
        if untrusted := getattr(error, "verify_message", ""):  # of `ssl`
            return NoAnswer(
                f"the certificate of {url} (from {source}) is not trusted ({untrusted.rstrip('.')}). Use a name that it is for, or set "
                "SSL_CERT_FILE to the certificate of your own authority"
            )
        if getattr(error, "reason", None) in _NO_TLS:
            return NoAnswer(f"{url} (from {source}) does not use TLS. Use http://, or set --server")
        way = (
            "Use https:// if it has TLS"
            if cause == _CLOSED and url.startswith("http:")
            else "Start one with `runrig up`"
        )
        return NoAnswer(f"no runrig server at {url} (from {source}; {cause}). {way}, or set --server")


_CLOSED = "it closed the connection"
_EOF = "UNEXPECTED_EOF_WHILE_READING"
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
"""What `ssl` says about a server that answers in clear text."""


def _cause(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, ConnectionError | h11.RemoteProtocolError) or getattr(error, "reason", None) == _EOF:
        return _CLOSED
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _encoded(query: Query | None) -> str:
    """Returns ``?a=1&a=2``. Omits None and empty lists; booleans become ``True`` and ``False``."""
    text = urlencode({name: value for name, value in (query or {}).items() if value is not None}, doseq=True)
    return f"?{text}" if text else ""
