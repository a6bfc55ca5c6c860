"""Batches jobs from an event loop that arrive while others are running, and runs each batch in one thread."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Calls *work* in a thread, one call at a time, with all jobs that have arrived, up to *most*. It returns their
    results in order.

    For one event loop. A job never waits for others to arrive.
    """

    def __init__(self, work: Callable[[list[T]], Sequence[R | Exception]], most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def do(self, job: T) -> R:
        """Returns the result of *job*, which is completed even if the caller is cancelled."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, answer))
        if self._worker is None:
            # In a separate context, because its log lines belong to no single request.
            self._worker = asyncio.get_running_loop().create_task(self._work_on(), context=Context())
        return await answer

    async def _work_on(self) -> None:
        try:
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                for (_, answer), outcome in zip(taken, await self._done([job for job, _ in taken]), strict=True):
                    if answer.done():  # The caller was cancelled.
                        continue
                    if isinstance(outcome, Exception):
                        answer.set_exception(outcome)
                    else:
                        answer.set_result(outcome)
                await asyncio.sleep(0)  # Sends answers and reads new jobs before the next batch.
        finally:
            self._worker = None

    async def _done(self, jobs: list[T]) -> Sequence[R | Exception]:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self._work, jobs)
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            return [error] * len(jobs)
