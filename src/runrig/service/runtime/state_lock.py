"""The lock of the state, whose hold time can be read without it."""

import threading
import time
from types import TracebackType

from runrig.service.runtime.metrics import Metrics


class StateLock:
    """Re-entrant. Measures how long it is held, and lets a frequent holder give way to others."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.RLock()
        self._depth = 0
        self._since: float | None = None
        self._turns = threading.Condition()
        self._waited = self._got = 0  # How many had to wait for it, and how many of them got it.

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            with self._turns:
                self._waited += 1
            self._lock.acquire()
            with self._turns:
                self._got += 1
                self._turns.notify_all()
        self._depth += 1
        if self._depth == 1:
            self._since = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        held_s = None
        if self._depth == 0:
            assert self._since is not None
            held_s, self._since = time.monotonic() - self._since, None
        self._lock.release()
        if held_s is not None:
            self._metrics.lock_held(held_s)

    def give_way(self) -> None:
        """Returns once all current waiters have had the lock. The caller must not hold it.

        Without this, a thread that releases and immediately takes the lock would nearly always get it.
        """
        with self._turns:
            waiting = self._waited
            self._turns.wait_for(lambda: self._got >= waiting)

    @property
    def held_s(self) -> float:
        """Returns for how many seconds it has been held; 0 if it is free. Does not wait for it."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since
