"""Limits how much heavy work of one kind, such as template renderings or plans, runs at the same time."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runrig.domain.errors import Unavailable
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp

AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
OF_ONE_USER = 16
OF_ALL = 32
"""Maximum of those that run or wait, each in its own thread; more are refused."""

RETRY_S = 2


@dataclass(eq=False, repr=False)
class Turns:
    """First come, first served. Of turns that belong to users, one is always reserved for other users.

    *what*: for messages, such as "template renderings". *advice*: how to do without, as the rest of a sentence, if there is
    a way. *within_s*: how long each can wait; None: any time.
    """

    what: str
    advice: str = ""
    at_once: int = AT_ONCE
    of_one_user: int = OF_ONE_USER
    of_all: int = OF_ALL
    within_s: float | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: list[tuple[str | None, object]] = field(default_factory=list)
    _running: Counter[str | None] = field(default_factory=Counter)

    @contextmanager
    def turn(self, user: str | None = None, leaving: Leaving | None = None) -> Iterator[None]:
        """Waits for a turn, which belongs to *user*. Raises Unavailable if too many wait or it takes too long, GivenUp if the client
        disconnects.
        """
        ticket = (user, object())
        with self._changed:
            self._check_room(user)
            self._waiting.append(ticket)
            try:
                self._wait(ticket, leaving or Leaving())
                self._running[user] += 1
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()  # There may be room for the next one too.
        try:
            yield
        finally:
            with self._changed:
                self._running[user] -= 1
                self._changed.notify_all()

    def _wait(self, ticket: tuple[str | None, object], leaving: Leaving) -> None:
        leaving.then(self._look_again)
        self._changed.wait_for(lambda: leaving.left or self._next() is ticket, self.within_s)
        if leaving.left:
            raise GivenUp("the client has disconnected")
        if self._next() is not ticket:
            raise self._refusal("", self.of_all)

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _next(self) -> tuple[str | None, object] | None:
        """Returns the next one that can begin, if any."""
        if self._running.total() >= self.at_once:
            return None
        may = (each for each in self._waiting if each[0] is None or self._running[each[0]] < self.at_once - 1)
        return next(may, None)

    def _check_room(self, user: str | None) -> None:
        waiting = Counter(each for each, _ in self._waiting) + self._running
        if user is not None and waiting[user] >= self.of_one_user:
            raise self._refusal(f" by {user}", self.of_one_user)
        if waiting.total() >= self.of_all:
            raise self._refusal("", self.of_all)

    def _refusal(self, whose: str, most: int) -> Unavailable:
        return Unavailable(
            f"too many {self.what} in progress{whose} (limit {most}). Try again in a few seconds{self.advice}",
            {"retry_after_s": RETRY_S},
        )
