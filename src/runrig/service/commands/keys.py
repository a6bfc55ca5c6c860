"""Requests with one Idempotency-Key take turns, so that the second finds what the first has stored."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Keys:
    def __init__(self) -> None:
        self._free = threading.Condition()
        self._taken: set[str] = set()

    @contextmanager
    def turn(self, key: str | None) -> Iterator[None]:
        """Waits until nobody else works under *key*; None: under no key."""
        if key is None:
            yield
            return
        with self._free:
            self._free.wait_for(lambda: key not in self._taken)
            self._taken.add(key)
        try:
            yield
        finally:
            with self._free:
                self._taken.remove(key)
                self._free.notify_all()
