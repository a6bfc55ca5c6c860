"""What a workflow failed of, by what its tasks wrote last."""

from collections import deque
from dataclasses import dataclass

from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Task
from runrig.engine.explain.cause import MOST_LINES, Cause, cause_of, in_words
from runrig.ports.store import StoredWorkflow
from runrig.service.queries.output import STDERR, STDOUT, Line, Tail
from runrig.service.queries.sentences import first_failed
from runrig.service.queries.sources import Says

MOST_TASKS = 16
"""Of so many that failed first the output is read."""
SHOWN = 20
"""Lines that are shown of it."""
_MOST_REMEMBERED = 1_000
_LAST_CODE = 255
"""Codes above it are ours: such an attempt did not end by its program."""


@dataclass(frozen=True, slots=True)
class Failure:
    """*task*: the attempt that failed first.  *sentence*: of what; *ending*: its exit code in words.

    *lines*: the last ones that it wrote, or those to the end of the cause; *first* to *last* of them tell it, -1 if none do.
    """

    task: Task
    sentence: str
    ending: str
    lines: tuple[str, ...]
    first: int
    last: int


class Failures:
    """Reads files, so not to be asked in the event loop.  What has ended is read once."""

    def __init__(self, backend: Says) -> None:
        self._backend = backend
        self._known: dict[str, Failure] = {}

    def of(self, stored: StoredWorkflow) -> Failure | None:
        """None if the workflow has not failed by a program of its own, or nothing is kept of what that wrote."""
        workflow = stored.workflow
        if not workflow.status.finished or workflow.status is WorkflowStatus.COMPLETED:
            return None
        if (known := self._known.get(workflow.id)) is not None:
            return known
        own = [task for task in first_failed(stored.tasks) if (task.exit_code or 0) <= _LAST_CODE]
        found = [each for task in own[:MOST_TASKS] if (each := self._read(task)) is not None]
        if not found:
            return None
        _, task, cause, lines = min(found, key=lambda each: each[0])
        failure = _shown(task, cause, lines)
        if failure.lines:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[workflow.id] = failure
        return failure

    def _read(self, task: Task) -> tuple[tuple[bool, float], Task, Cause, list[str]] | None:
        """The cause of one attempt, with its place among those of others: the first in time that is no consequence of another's."""
        if self._backend.output(task.key) is None:
            return None
        tail = Tail(task.key, self._backend.output, (STDOUT, STDERR), MOST_LINES)
        written: list[Line] = list(deque(tail.rest(), MOST_LINES))
        lines = [line.data.decode(errors="replace").rstrip("\r").rpartition("\r")[2] for line in written]
        cause = cause_of(lines)
        at = written[cause.last].time if cause.last >= 0 else task.end_time or 0.0
        return (cause.follows, at), task, cause, lines


def _shown(task: Task, cause: Cause, lines: list[str]) -> Failure:
    end = len(lines) if len(lines) - cause.first <= SHOWN or cause.last < 0 else cause.last + 1
    begin = max(0, end - SHOWN)
    first, last = (max(-1, max(at, begin) - begin) if cause.last >= 0 else -1 for at in (cause.first, cause.last))
    ending = in_words(task.exit_code or 0, task.failure_message)
    return Failure(task, cause.sentence, ending, tuple(lines[begin:end]), first, last)
