"""The lock in front of the state: who holds it knows no other; how long it has been held can be asked without it."""

import threading
import time
from types import TracebackType

from runrig.service.runtime.metrics import Metrics


class StateLock:
    """Re-entrant.  Measures how long it is held, and lets a holder that comes again and again give way to others."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.RLock()
        self._depth = 0
        self._since: float | None = None
        self._turns = threading.Condition()
        self._waited = self._got = 0  # how many have had to wait for it, and how many of them have got it

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
        """Returns when everybody who waits for the lock now has had it.  The caller does not hold it.

        A lock alone does not see to that: whoever gives it back and takes it again at once nearly always gets it.
        """
        with self._turns:
            waiting = self._waited
            self._turns.wait_for(lambda: self._got >= waiting)

    @property
    def held_s(self) -> float:
        """For how long it has been held, in seconds; 0 if it is free.  Does not wait for it."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since
