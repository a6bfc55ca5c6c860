"""Limits on connections: some for each address without authentication, for a few seconds; a share for each user; and
all within the file descriptors.

A connection is unauthenticated until it sends a valid token. If a new connection does not fit, the oldest
unauthenticated one is closed, preferably from the same address. So clients that send their request immediately are
served, even if many others are idle. Everything runs in the event loop.
"""

import asyncio
import errno
import ipaddress
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from runrig.domain.errors import Unavailable
from runrig.service.runtime import logs

STRANGER_S = 10.0
"""Seconds that a connection, or a proxy's request, may take until it has sent a valid token."""
MOST = 1000
BACKLOG = 100
AT_ONCE = 16
"""Maximum connections in the accept queue, and accepted in one go; then established ones get their turn."""
SPARE = 100
"""Extra connections: those that are being closed."""
FILES = 100
"""Descriptors for everything else."""
_NOTE_EVERY_S = 60.0

_log = logging.getLogger(__name__)

End = Callable[[int, str], None]
"""Called with (status, message): sends the message if possible, and closes the connection."""


class Guest:
    """One connection, from accept to close. *address* None: a proxy."""

    def __init__(self, crowd: "Crowd", address: str | None, end: End) -> None:
        self.end = end
        self.address = address
        self.refusal: str | None = None
        """Why it is being closed, until the message can be sent; None if it is not."""
        self.is_leaving = False
        self._crowd = crowd
        self._user: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._proxied = address is None
        if address is not None:
            self._wait_for_token()

    def asks(self, address: str) -> None:
        """Notes the beginning of a request from *address*."""
        if self._proxied and self._user is None and not self.is_leaving:
            self.answered()
            self.address = address
            self._wait_for_token()

    def shows(self, user: str) -> None:
        """Notes a valid token of *user*. Raises Unavailable if that user has too many connections."""
        if user != self._user and not self.is_leaving:
            self._crowd.admit(user, self._user)
            self._user = user
        self._known()

    def answered(self) -> None:
        """Notes a response. A proxy's connection belongs to no user until its next request."""
        if self._proxied:
            self._known()

    def leaves(self) -> None:
        if self.is_leaving:
            return
        self.is_leaving = True
        self._known()
        self._crowd.forget(self._user)
        self._crowd.open -= 1

    def _wait_for_token(self) -> None:
        assert self.address is not None, "an unauthenticated connection has an address"
        self._crowd.strangers.setdefault(self.address, {})[self] = None
        self._deadline = asyncio.get_running_loop().call_later(STRANGER_S, self._too_late)
        self._crowd.make_room(self.address)

    def _known(self) -> None:
        """Removes it from the unauthenticated connections."""
        if self._deadline is None:
            return
        assert self.address is not None, "an unauthenticated connection has an address"
        self._deadline.cancel()
        self._deadline = None
        mine = self._crowd.strangers[self.address]
        del mine[self]
        if not mine:
            del self._crowd.strangers[self.address]

    def _too_late(self) -> None:
        self.leaves()
        self.end(408, f"no valid token was received within {STRANGER_S:g} seconds: send a request with one")


class Crowd:
    """*most*: connections; *proxies*: addresses and networks, separated by commas, that are trusted to name the client."""

    def __init__(self, most: int = MOST, proxies: str | None = None) -> None:
        self.most = most
        # This many can arrive together, each with a token that has not been read yet.
        self.of_address = max(BACKLOG, most // 4)
        self.of_user = max(BACKLOG, most // 2)
        self.strangers: dict[str, dict[Guest, None]] = {}
        """Connections without a valid token by address, oldest first."""
        self.guests: dict[int, Guest] = {}
        """All connections by descriptor."""
        self.open = 0
        """Number of connections that are not being closed."""
        self._users: Counter[str] = Counter()
        self._proxies = [ipaddress.ip_network(each) for each in (proxies or "").split(",") if each]
        self._ended: Counter[str] = Counter()
        self._noted_at = float("-inf")

    def enter(self, descriptor: int, address: str, end: End) -> Guest:
        ip = ipaddress.ip_address(address.partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        full = f"{self.most} connections are open, which is the limit. Try again later"
        is_full = self.open >= self.most and not self._end_oldest(full)
        self.open += 1
        is_proxy = any(ip in network for network in self._proxies)
        guest = self.guests[descriptor] = Guest(self, None if is_proxy else str(ip), end)
        guest.refusal = full if is_full else None
        return guest

    def leave(self, descriptor: int) -> None:
        guest = self.guests.pop(descriptor, None)
        if guest is not None:
            guest.leaves()

    def make_room(self, address: str) -> None:
        """Closes the oldest unauthenticated connection of *address* if it has too many."""
        mine = self.strangers[address]
        if len(mine) > self.of_address:
            self._end(
                next(iter(mine)),
                f"{self.of_address} connections of {address} have not sent a valid token, and this is the oldest",
            )

    def _end_oldest(self, message: str) -> bool:
        """Closes the oldest unauthenticated connection of the address with the most; returns False if there is none."""
        if not self.strangers:
            return False
        address = max(self.strangers, key=lambda each: len(self.strangers[each]))
        self._end(next(iter(self.strangers[address])), message)
        return True

    def _end(self, guest: Guest, message: str) -> None:
        self.note("strangers")
        guest.leaves()
        guest.end(503, message)

    def admit(self, user: str, before: str | None) -> None:
        if self._users[user] >= self.of_user:
            self.note("users")
            raise Unavailable(
                f"{user} has {self._users[user]} open connections, which is the limit for one user. Close some",
                {"retry_after_s": 1},
            )
        self._users[user] += 1
        self.forget(before)

    def forget(self, user: str | None) -> None:
        if user is not None:
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]

    def note(self, why: str) -> None:
        """Counts a connection that was closed to free a slot; logs this at intervals."""
        self._ended[why] += 1
        now = time.monotonic()
        if now - self._noted_at >= _NOTE_EVERY_S:
            self._noted_at = now
            _log.warning(
                "%s", logs.line("connections_ended", open=len(self.guests), **dict(sorted(self._ended.items())))
            )
            self._ended.clear()


class Arrived(socket.socket):
    """A connection that reports its end to the crowd."""

    crowd: Crowd | None = None

    def close(self) -> None:
        if self.crowd is not None:
            self.crowd.leave(self.fileno())
            self.crowd = None
        super().close()

    def hang_up(self, _status: int, message: str) -> None:
        """Closes it before anything was sent. The end is reported as soon as possible, and a TLS handshake is aborted."""
        if self.crowd is not None:
            self.crowd.guests[self.fileno()].refusal = message
        with suppress(OSError):  # It is already closed.
            self.shutdown(socket.SHUT_RD)


class Door(socket.socket):
    """A listening socket that accepts only as many connections as *crowd* and the file descriptors of this process
    allow.
    """

    def __init__(self, crowd: Crowd, *kind: Any) -> None:
        super().__init__(*kind)
        self._crowd = crowd
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def listen(self, _at_once: int = AT_ONCE, /) -> None:
        """The event loop accepts as many connections in one go as it passes here."""
        super().listen(BACKLOG)

    def accept(self) -> tuple[socket.socket, Any]:
        """Returns the next connection. Raises BlockingIOError if there is none, or after one that had to be closed
        immediately.
        """
        try:
            plain, address = super().accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._turn_away()
            raise
        if len(self._crowd.guests) >= self._crowd.most + SPARE:
            plain.close()
            self._crowd.note("surplus")
            raise BlockingIOError
        arrived = Arrived(self.family, self.type, self.proto, fileno=plain.detach())
        arrived.crowd = self._crowd
        self._crowd.enter(arrived.fileno(), address[0], arrived.hang_up)
        return arrived, address

    def close(self) -> None:
        if self.fileno() >= 0:
            os.close(self._spare)
        super().close()

    def _turn_away(self) -> None:
        """If no descriptor is left, closes the next connection with a reserved descriptor. Otherwise the event loop
        would get it again and again.
        """
        os.close(self._spare)
        try:
            super().accept()[0].close()
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        self._crowd.note("descriptors")
        raise BlockingIOError
