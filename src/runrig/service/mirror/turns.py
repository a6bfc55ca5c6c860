"""Limits how many slow questions of a kind run at the same time: each has a branch of the state, and a processor."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runrig.domain.errors import Unavailable
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp

RETRY_S = 2


class Turns:
    """Up to *most* of *what* ("plans") at the same time. *waiting*: how many can wait, in order of arrival, for up to
    *within_s*. Thread-safe.
    """

    def __init__(self, most: int, what: str, *, waiting: int = 0, within_s: float = 0.0) -> None:
        self._most, self._what, self._room, self._within_s = most, what, most + waiting, within_s
        self._changed = threading.Condition()
        self._waiting: list[object] = []
        self._under_way = 0

    @contextmanager
    def one(self, leaving: Leaving) -> Iterator[None]:
        """Waits for a turn. Raises Unavailable if too many wait or it takes too long, GivenUp if the client disconnects."""
        self._wait(leaving)
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _wait(self, leaving: Leaving) -> None:
        mine = object()
        with self._changed:
            if self._under_way + len(self._waiting) >= self._room:
                raise self._refusal()
            self._waiting.append(mine)
            leaving.then(self._look_again)
            try:
                self._changed.wait_for(lambda: leaving.left or self._is_next(mine), self._within_s)
                if leaving.left:
                    raise GivenUp("the client has disconnected")
                if not self._is_next(mine):
                    raise self._refusal()
                self._under_way += 1
            finally:
                self._waiting.remove(mine)
                self._changed.notify_all()

    def _is_next(self, ticket: object) -> bool:
        return self._waiting[0] is ticket and self._under_way < self._most

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _refusal(self) -> Unavailable:
        wait = f", and {self._room - self._most} waiting" if self._room > self._most else ""
        return Unavailable(
            f"too many {self._what} in progress (limit {self._most}{wait}). Try again in a few seconds",
            {"retry_after_s": RETRY_S},
        )
