"""HTTP for the command line: raw JSON, and text as a stream of lines."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from runrig.client.caller import ANSWER_S, Caller, Query, Request, Token, Value
from runrig.client.following import Told, followed
from runrig.client.network import BlockingNetwork, done, each
from runrig.client.paths import path
from runrig.client.server_address import Address
from runrig.domain.errors import InvalidInput

__all__ = ["ANSWER_S", "Query", "Transport", "Value", "path", "patience"]

RETRY = "RUNRIG_RETRY_S"
PATIENCE_S = 15.0
"""Seconds; a standby takes over within 10 s."""
LONGEST_PATIENCE_S = 3600.0
RESTART_S = 60.0
"""How long to wait for a server that is followed, in seconds; it may be loading a large database."""


class Transport:
    """*token* None: calls are sent without a token. *token_hint*: where to find a valid one."""

    def __init__(self, address: Address, token: Token, token_hint: str = "", *, patience_s: float = 0.0) -> None:
        """*patience_s*: how long to wait for an unreachable server, in seconds."""
        self._caller = Caller(BlockingNetwork(), address, token, token_hint, patience_s=patience_s)

    @property
    def url(self) -> str:
        return self._caller.address.url

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
        """Returns the JSON of the response, ``{}`` if it is empty. Raises the server's error, or NoAnswer if no runrig
        server responds.

        *key*: a new UUID, by which the server recognises a repeated call.
        """
        return done(self._caller.answer(Request(method, path, query, body, timeout_s, key))).json

    def items(self, path: str, query: Query | None = None, *, most: int | None = None) -> Iterator[dict[str, Any]]:
        """Yields the items of the list at *path*, page by page; *most* None: all of them."""
        return each(self._caller.items(path, query, most))

    def lines(self, path: str, query: Query | None = None) -> Iterator[str]:
        """Yields the lines of a text as they arrive, without line ends, until the server ends it."""
        return each(self._caller.lines(Request("GET", path, query, timeout_s=None)))

    def followed(self, query: Query, after: int) -> Iterator[Told]:
        """Yields the events of *query* after revision *after* as they happen, as `following.followed`. Waits for a
        server that restarts.
        """
        return each(
            followed(self._caller, path("events", "stream"), query, after, max(RESTART_S, self._caller.patience_s))
        )

    def text(self, path: str, query: Query | None = None) -> str:
        return "".join(each(self._caller.pieces(Request("GET", path, query))))

    def raw(self, path: str) -> Iterator[bytes]:
        """Yields the bytes of the response as they arrive."""
        return each(self._caller.raw(Request("GET", path)))

    def socket_address(self, path: str) -> tuple[str, dict[str, str]]:
        """Returns the URL and headers of a WebSocket."""
        parts = urlsplit(self.url + path)
        return parts._replace(scheme="wss" if parts.scheme == "https" else "ws").geturl(), done(self._caller.headers())


def patience(address: Address, environment: Mapping[str, str]) -> float:
    """Returns the seconds to wait: RUNRIG_RETRY_S, else enough for a takeover, or 0 for a server on this machine."""
    value = environment.get(RETRY)
    if not value:
        return 0.0 if address.loopback else PATIENCE_S
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_PATIENCE_S:
        raise InvalidInput.one(f"{RETRY} is {value!r}. Use a number of seconds from 0 to {LONGEST_PATIENCE_S:.0f}")
    return seconds
