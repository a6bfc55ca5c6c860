"""Queue for template rendering. Each rendering is a process with half a second and 100 MiB, so few run at the same time."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from runrig.domain.errors import Unavailable

AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
OF_ONE_USER = 16
OF_ALL = 32
"""Maximum templates being rendered or waiting, each in its own thread; more are refused."""


class TemplateQueue:
    """First come, first served, but one turn is always reserved for other users."""

    def __init__(self, at_once: int = AT_ONCE, of_one_user: int = OF_ONE_USER, of_all: int = OF_ALL) -> None:
        self._at_once = at_once
        self._of_one_user = of_one_user
        self._of_all = of_all
        self._changed = threading.Condition()
        self._waiting: list[tuple[str, object]] = []
        self._rendering: Counter[str] = Counter()

    @contextmanager
    def turn(self, user: str) -> Iterator[None]:
        """Waits for a turn of *user*. Raises Unavailable immediately if too many wait."""
        ticket = (user, object())
        with self._changed:
            self._check_room(user)
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._next() is ticket)
            self._waiting.remove(ticket)
            self._rendering[user] += 1
            self._changed.notify_all()  # There may be another one for the next.
        try:
            yield
        finally:
            with self._changed:
                self._rendering[user] -= 1
                self._changed.notify_all()

    def _next(self) -> tuple[str, object] | None:
        """Returns the next one that can begin, if any."""
        if self._rendering.total() >= self._at_once:
            return None
        may = (each for each in self._waiting if self._rendering[each[0]] < self._at_once - 1)
        return next(may, None)

    def _check_room(self, user: str) -> None:
        waiting = Counter(each for each, _ in self._waiting) + self._rendering
        if waiting[user] >= self._of_one_user:
            whose, most = f" by {user}", self._of_one_user
        elif waiting.total() >= self._of_all:
            whose, most = "", self._of_all
        else:
            return
        raise Unavailable(
            f"too many template renderings in progress{whose} (limit {most}). "
            "Try again in a few seconds, or send rendered files",
            {"retry_after_s": 1},
        )
