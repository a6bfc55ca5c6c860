"""How many long questions of a kind are answered at once: each has a branch of the state, and a processor to itself."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runrig.domain.errors import Unavailable

RETRY_S = 2


class Turns:
    """*most* of *what*, "plans are being made", at once.  Thread-safe."""

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Raises Unavailable at once if all are taken."""
        if not self._free.acquire(blocking=False):
            raise Unavailable(
                f"{self._most} {self._what}, which is all that may be at once: try again when one has been answered",
                {"retry_after_s": RETRY_S},
            )
        try:
            yield
        finally:
            self._free.release()
