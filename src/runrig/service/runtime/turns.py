"""Limits how much heavy work of one kind, such as template renderings, runs at the same time."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from runrig.domain.errors import Unavailable

AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
OF_ONE_USER = 16
OF_ALL = 32
"""Maximum of those that run or wait, each in its own thread; more are refused."""


class Turns:
    """First come, first served. One turn is always reserved for other users.

    *what*: for messages, such as "template renderings". *advice*: how to do without, as the rest of a sentence, if there is
    a way.
    """

    def __init__(
        self,
        what: str,
        advice: str = "",
        *,
        at_once: int = AT_ONCE,
        of_one_user: int = OF_ONE_USER,
        of_all: int = OF_ALL,
    ) -> None:
        self._what = what
        self._advice = advice
        self._at_once = at_once
        self._of_one_user = of_one_user
        self._of_all = of_all
        self._changed = threading.Condition()
        self._waiting: list[tuple[str, object]] = []
        self._running: Counter[str] = Counter()

    @contextmanager
    def turn(self, user: str) -> Iterator[None]:
        """Waits for a turn of *user*. Raises Unavailable immediately if too many wait."""
        ticket = (user, object())
        with self._changed:
            self._check_room(user)
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._next() is ticket)
            self._waiting.remove(ticket)
            self._running[user] += 1
            self._changed.notify_all()  # There may be room for the next one too.
        try:
            yield
        finally:
            with self._changed:
                self._running[user] -= 1
                self._changed.notify_all()

    def _next(self) -> tuple[str, object] | None:
        """Returns the next one that can begin, if any."""
        if self._running.total() >= self._at_once:
            return None
        may = (each for each in self._waiting if self._running[each[0]] < self._at_once - 1)
        return next(may, None)

    def _check_room(self, user: str) -> None:
        waiting = Counter(each for each, _ in self._waiting) + self._running
        if waiting[user] >= self._of_one_user:
            whose, most = f" by {user}", self._of_one_user
        elif waiting.total() >= self._of_all:
            whose, most = "", self._of_all
        else:
            return
        raise Unavailable(
            f"too many {self._what} in progress{whose} (limit {most}). Try again in a few seconds{self._advice}",
            {"retry_after_s": 1},
        )
