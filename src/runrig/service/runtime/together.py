"""Jobs that arrive in an event loop while others are at work are done together, in one thread."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """*work* is called in a thread, once at a time, with all that has come since, *most* at most: what became of each, in order.

    For one event loop.  Nobody waits for others to come: who is alone is worked for at once.
    """

    def __init__(self, work: Callable[[list[T]], Sequence[R | Exception]], most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def do(self, job: T) -> R:
        """Returns what became of *job*.  It is done even if the caller is cancelled meanwhile."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, answer))
        if self._worker is None:
            # In a context of its own: what it logs belongs to no single request.
            self._worker = asyncio.get_running_loop().create_task(self._work_on(), context=Context())
        return await answer

    async def _work_on(self) -> None:
        try:
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                for (_, answer), outcome in zip(taken, await self._done([job for job, _ in taken]), strict=True):
                    if answer.done():  # who waited has gone
                        continue
                    if isinstance(outcome, Exception):
                        answer.set_exception(outcome)
                    else:
                        answer.set_result(outcome)
                await asyncio.sleep(0)  # answers are sent, and what has come is read, before the next are taken
        finally:
            self._worker = None

    async def _done(self, jobs: list[T]) -> Sequence[R | Exception]:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self._work, jobs)
        except Exception as error:  # noqa: BLE001 - those who wait get it
            return [error] * len(jobs)
