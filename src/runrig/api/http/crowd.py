"""Limits on connections: unauthenticated ones get a few per address for some seconds, each user a share, within the file descriptors.

A connection is a stranger until it shows a valid token. If there is no room for a new connection, the oldest stranger is
closed, one from the same address first. So clients that send their request immediately are served, even if many others are idle.
Everything runs in the event loop.
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
"""How long a connection may be open, or a request of a proxy may take, before it has shown a valid token."""
MOST = 1000
BACKLOG = 100
AT_ONCE = 16
"""Connections that wait to be accepted, and that are accepted in one go: then those that have come are heard first."""
SPARE = 100
"""Extra connections: those that are being closed."""
FILES = 100
"""Descriptors for everything else."""
_NOTE_EVERY_S = 60.0

_log = logging.getLogger(__name__)

End = Callable[[int, str], None]
"""Called with (status, message): sends the message if possible, and closes the connection."""


class Guest:
    """One connection, from accept to close.  *address* None: a proxy, which calls for others."""

    def __init__(self, crowd: "Crowd", address: str | None, end: End) -> None:
        self.end = end
        self.address = address
        self.refusal: str | None = None
        """Why it is closed, once the message can be sent; None if it is not."""
        self.is_leaving = False
        self._crowd = crowd
        self._user: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._proxied = address is None
        if address is not None:
            self._wait_for_token()

    def asks(self, address: str) -> None:
        """A request begins, on behalf of *address*."""
        if self._proxied and self._user is None and not self.is_leaving:
            self.answered()
            self.address = address
            self._wait_for_token()

    def shows(self, user: str) -> None:
        """It has shown a valid token of *user*.  Raises Unavailable if that user has too many connections."""
        if user != self._user and not self.is_leaving:
            self._crowd.admit(user, self._user)
            self._user = user
        self._known()

    def answered(self) -> None:
        """A request was answered. The connection of a proxy belongs to no user until the next one."""
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
        assert self.address is not None, "a stranger has an address"
        self._crowd.strangers.setdefault(self.address, {})[self] = None
        self._deadline = asyncio.get_running_loop().call_later(STRANGER_S, self._too_late)
        self._crowd.make_room(self.address)

    def _known(self) -> None:
        """It is a stranger no longer."""
        if self._deadline is None:
            return
        assert self.address is not None, "a stranger has an address"
        self._deadline.cancel()
        self._deadline = None
        mine = self._crowd.strangers[self.address]
        del mine[self]
        if not mine:
            del self._crowd.strangers[self.address]

    def _too_late(self) -> None:
        self.leaves()
        self.end(408, f"no valid token was shown within {STRANGER_S:g} seconds: send a request with one")


class Crowd:
    """*most*: connections; *proxies*: addresses and networks, with commas, whose word on whom they call for is believed."""

    def __init__(self, most: int = MOST, proxies: str | None = None) -> None:
        self.most = most
        self.of_address = max(BACKLOG, most // 4)  # so many come at the same time, each with its token on the way
        self.of_user = max(BACKLOG, most // 2)
        self.strangers: dict[str, dict[Guest, None]] = {}
        """Guests without a valid token by address, oldest first."""
        self.guests: dict[int, Guest] = {}
        """All guests by descriptor."""
        self.open = 0
        """How many of them have not been told to leave."""
        self._users: Counter[str] = Counter()
        self._proxies = [ipaddress.ip_network(each) for each in (proxies or "").split(",") if each]
        self._ended: Counter[str] = Counter()
        self._noted_at = float("-inf")

    def enter(self, descriptor: int, address: str, end: End) -> Guest:
        ip = ipaddress.ip_address(address.partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        full = f"{self.most} connections are open, which is all that there may be: try again later"
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
        """Ends the oldest stranger of *address* if there are too many."""
        mine = self.strangers[address]
        if len(mine) > self.of_address:
            self._end(
                next(iter(mine)),
                f"{self.of_address} connections of {address} have shown no valid token, and this is the oldest",
            )

    def _end_oldest(self, message: str) -> bool:
        """Ends the oldest stranger of the address that has the most; False if there is none."""
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
                f"{user} has {self._users[user]} connections open, which is all that one user may have: close some",
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
        """Counts a connection that was ended for want of room; the log has a line now and then."""
        self._ended[why] += 1
        now = time.monotonic()
        if now - self._noted_at >= _NOTE_EVERY_S:
            self._noted_at = now
            _log.warning(
                "%s", logs.line("connections_ended", open=len(self.guests), **dict(sorted(self._ended.items())))
            )
            self._ended.clear()


class Arrived(socket.socket):
    """A connection whose end the crowd hears of."""

    crowd: Crowd | None = None

    def close(self) -> None:
        if self.crowd is not None:
            self.crowd.leave(self.fileno())
            self.crowd = None
        super().close()

    def hang_up(self, _status: int, message: str) -> None:
        """Ends it before anything can be said: it is told as soon as it can be, and a TLS handshake does not go on."""
        if self.crowd is not None:
            self.crowd.guests[self.fileno()].refusal = message
        with suppress(OSError):  # it has gone already
            self.shutdown(socket.SHUT_RD)


class Door(socket.socket):
    """A listening socket that accepts at most as many connections as *crowd* and the file descriptors of this process allow."""

    def __init__(self, crowd: Crowd, *kind: Any) -> None:
        super().__init__(*kind)
        self._crowd = crowd
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def listen(self, _at_once: int = AT_ONCE, /) -> None:
        """The event loop accepts as many in one go as it thinks that it lets wait."""
        super().listen(BACKLOG)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.  Raises BlockingIOError if there is none, and after one that had to be closed at once."""
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
        """Without a descriptor left: closes the next one, by means of the spare one, or it would be offered again and again."""
        os.close(self._spare)
        try:
            super().accept()[0].close()
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        self._crowd.note("descriptors")
        raise BlockingIOError
