"""Commands about workflows as they arrive in the event loop: those that come while others are stored are carried out together."""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from anyio import to_thread

from runrig.domain.gangs import Priority
from runrig.service.commands.batches import Batches, Outcome
from runrig.service.commands.keys import Keys
from runrig.service.commands.submissions import Accepted, ParsedSubmission, Submission, Submissions, is_soon_read, read
from runrig.service.runtime import logs
from runrig.service.runtime.together import Together
from runrig.service.runtime.transactor import MOST_JOBS, Transactor
from runrig.service.runtime.writing import Command

R = TypeVar("R")


class Arrivals:
    """The commands of `Submissions` and `Batches`, with the same answers and errors, for one event loop.

    Requests with one key take turns.
    """

    def __init__(self, transactor: Transactor, submissions: Submissions, batches: Batches) -> None:
        self._submissions = submissions
        self._batches = batches
        self._together: Together[Command[Any], Any] = Together(transactor.carry_out_all, MOST_JOBS)
        self._keys = Keys()

    async def submit(self, submission: Submission) -> Accepted:
        """As `Submissions.submit`."""
        ready: Submission | ParsedSubmission = submission
        if not is_soon_read(submission):
            ready = await to_thread.run_sync(read, submission)
        return await self._keyed(submission.uuid, self._submissions.submitting(ready))

    async def submit_again(
        self, id: str, *, pool: str, user: str, priority: Priority | None = None, uuid: str | None = None
    ) -> Accepted:
        """As `Submissions.submitting_again`."""
        command = self._submissions.submitting_again(id, pool=pool, user=user, priority=priority, uuid=uuid)
        return await self._keyed(uuid, command)

    async def restart(self, id: str, *, pool: str, user: str, uuid: str | None = None) -> Accepted:
        """As `Submissions.restarting`."""
        return await self._keyed(uuid, self._submissions.restarting(id, pool=pool, user=user, uuid=uuid))

    async def cancel(self, id: str, *, user: str, message: str = "") -> str:
        """As `Submissions.cancel`."""
        return await self._keyed(None, self._submissions.cancelling(id, user=user, message=message))

    async def hold(self, id: str, *, user: str) -> str:
        """As `Submissions.holding`."""
        return await self._keyed(None, self._submissions.holding(id, user=user))

    async def release(self, id: str, *, user: str) -> str:
        """As `Submissions.releasing`."""
        return await self._keyed(None, self._submissions.releasing(id, user=user))

    async def reassign(self, id: str, *, user: str, pool: str | None, priority: Priority | None) -> str:
        """As `Submissions.reassigning`."""
        return await self._keyed(None, self._submissions.reassigning(id, user=user, pool=pool, priority=priority))

    async def submit_batch(self, batch: Sequence[Submission], *, key: str | None, together: bool) -> list[Outcome]:
        """As `Batches.submit`."""
        async with self._keys.turn(key):
            return await to_thread.run_sync(partial(self._batches.submit, batch, key=key, together=together))

    async def _keyed(self, key: str | None, command: Command[R]) -> R:
        async with self._keys.turn(key):
            answer: R = await self._together.do(_marked(logs.current(), command))
            return answer


def _marked(request: str, command: Command[R]) -> Command[R]:
    """*command*: what it logs belongs to *request*, whatever it is carried out together with."""
    logs.enter(request)
    return (yield from command)
