"""Threads that wait for one lock: the first of them works for all, so that many commands cost one transaction."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class _Waiter(Generic[T]):
    """*called*: set when its jobs are done, or when it is the one to work."""

    def __init__(self, jobs: Sequence[T]) -> None:
        self.jobs = jobs
        self.called = threading.Event()
        self.done = False


class Turns(Generic[T]):
    """*work* is called with the jobs of all that wait, in the order in which they came, by one thread at a time that holds *lock*.

    It gets *most* jobs at once, unless one thread brings more.
    """

    def __init__(self, lock: AbstractContextManager[None], work: Callable[[list[T]], None], most: int) -> None:
        self._lock = lock
        self._work = work
        self._most = most
        self._mutex = threading.Lock()
        self._waiting: list[_Waiter[T]] = []
        self._working = False

    def do(self, jobs: Sequence[T]) -> None:
        """Returns when *jobs* are done, by this thread or another.  The caller must not hold the lock."""
        mine = _Waiter(jobs)
        with self._mutex:
            self._waiting.append(mine)
            leads, self._working = not self._working, True
        if not leads:
            mine.called.wait()
        if not mine.done:
            self._lead()

    def _lead(self) -> None:
        """Works for the first of those that wait, this thread among them."""
        taken: list[_Waiter[T]] = []
        try:
            with self._lock:
                taken = self._take()
                self._work([job for waiter in taken for job in waiter.jobs])
        finally:
            self._hand_over(taken)

    def _take(self) -> list[_Waiter[T]]:
        with self._mutex:
            count, many = 0, 0
            while count < len(self._waiting) and (not count or many + len(self._waiting[count].jobs) <= self._most):
                many += len(self._waiting[count].jobs)
                count += 1
            taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _hand_over(self, taken: Sequence[_Waiter[T]]) -> None:
        with self._mutex:
            self._working = bool(self._waiting)
            if self._waiting:
                self._waiting[0].called.set()
        for waiter in taken:
            waiter.done = True
            waiter.called.set()
