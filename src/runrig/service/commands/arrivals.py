"""Commands about workflows, as they arrive in the event loop. Commands that arrive while others are being stored run
together.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from anyio import to_thread

from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.service.commands.batches import Batches, Outcome
from runrig.service.commands.keys import Keys
from runrig.service.commands.submission import ParsedSubmission, Submission, is_soon_read, read
from runrig.service.commands.submissions import Submissions
from runrig.service.runtime import logs
from runrig.service.runtime.together import Together
from runrig.service.runtime.transactor import Transactor
from runrig.service.runtime.writing import Command

MOST_JOBS = 32
"""Commands decided and stored together; limited, so that the lock is soon free again."""

R = TypeVar("R")


class Arrivals:
    """The commands of `Submissions` and `Batches`, with the same results and errors, for one event loop.

    Requests with the same key take turns.
    """

    def __init__(self, transactor: Transactor, submissions: Submissions, batches: Batches) -> None:
        self._submissions = submissions
        self._batches = batches
        self._together: Together[Command[Any], Any] = Together(transactor.carry_out_all, MOST_JOBS)
        self._keys = Keys()

    async def do(self, command: Command[R], key: str | None = None) -> R:
        """Runs *command*; returns its result or raises its exception. *key*: as in `Keys.turn`."""
        async with self._keys.turn(key):
            answer: R = await self._together.do(_marked(logs.current(), command))
            return answer

    async def submit(self, submission: Submission) -> WorkflowSubmitted:
        """As `Submissions.submitting`. Files that are slow to read are read first."""
        ready: Submission | ParsedSubmission = submission
        if not is_soon_read(submission):
            ready = await to_thread.run_sync(read, submission)
        return await self.do(self._submissions.submitting(ready), submission.uuid)

    async def submit_batch(self, batch: Sequence[Submission], *, key: str | None, together: bool) -> list[Outcome]:
        """As `Batches.submit`."""
        async with self._keys.turn(key):
            return await to_thread.run_sync(partial(self._batches.submit, batch, key=key, together=together))


def _marked(request: str, command: Command[R]) -> Command[R]:
    """Makes *command* log under *request*, whatever else runs in the same batch."""
    logs.enter(request)
    return (yield from command)
