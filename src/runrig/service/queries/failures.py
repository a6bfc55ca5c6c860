"""Why a workflow failed, according to the last output of its tasks."""

from collections import deque
from collections.abc import Callable, Collection, Iterable

from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import RunrigError
from runrig.domain.secrets import masked
from runrig.domain.shown.why import WorkflowCause
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Task, WorkflowSpec
from runrig.engine.explain.cause import MOST_LINES, Cause, cause_of, in_words, is_after
from runrig.ports.store import StoredWorkflow
from runrig.service.queries.of_specs import Specs
from runrig.service.queries.output import STDERR, STDOUT, Lines, Tail, one_by_one, text_of
from runrig.service.queries.sources import Says

MOST_TASKS = 16
"""Number of first failures whose output is read."""
SHOWN = 20
"""Number of output lines shown."""
_MOST_REMEMBERED = 1_000
_NOT_SHOWN = "its last lines are hidden because they may contain values of a credential that was changed or deleted since it was queued"
_LAST_CODE = 255
"""Codes above it are runrig's: the attempt was not ended by its program."""
_TOLD_TO_STOP = (Status.FAILED_CANCELED, Status.FAILED_PREEMPTED, Status.FAILED_UPSTREAM)

Handed = Callable[[str, Iterable[CredentialUse], float], Collection[str]]
"""As `Credentials.handed`."""


class Failures:
    """Reads files, so it must not be called in the event loop. The output of a finished workflow is read once."""

    def __init__(self, backend: Says, specs: Specs, handed: Handed) -> None:
        self._backend = backend
        self._specs = specs
        self._handed = handed
        self._known: dict[str, WorkflowCause] = {}

    def of(self, stored: StoredWorkflow) -> WorkflowCause | None:
        """Returns None unless one of the workflow's programs failed and its output still exists."""
        workflow = stored.workflow
        if not workflow.status.finished or workflow.status is WorkflowStatus.COMPLETED:
            return None
        if (known := self._known.get(workflow.id)) is not None:
            return known
        own = [task for task in first_failed(stored.tasks) if (task.exit_code or 0) <= _LAST_CODE]
        spec = self._specs({workflow.spec_hash}).get(workflow.spec_hash) if own else None
        if spec is None:  # Or retention is about to delete it with all output.
            return None
        found = [each for task in own[:MOST_TASKS] if (each := self._read(stored, spec, task)) is not None]
        if not found:
            return None
        _, task, cause, lines = min(found, key=lambda each: each[0])
        failure = _shown(task, cause, lines)
        if failure.lines:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[workflow.id] = failure
        return failure

    def _read(
        self, stored: StoredWorkflow, spec: WorkflowSpec, task: Task
    ) -> tuple[tuple[bool, float], Task, Cause, list[str]] | None:
        """Returns the cause of one attempt, with its rank: the earliest cause that does not follow from another one
        comes first.
        """
        if self._backend.output(task.key) is None:
            return None
        try:
            secrets = self._secrets(stored, spec, task)
        except RunrigError:
            return (False, task.end_time or 0.0), task, Cause(_NOT_SHOWN, -1, -1), []
        tail = Tail(task.key, self._backend.output, (STDOUT, STDERR), MOST_LINES)
        written = list(deque(one_by_one(tail.rest()), MOST_LINES))
        lines = [line.removesuffix("\n") for line in masked([_with_end(line) for line in written], secrets)]
        cause = cause_of(lines)
        at = written[cause.last].time if cause.last >= 0 else task.end_time or 0.0
        return (cause.follows or is_after(task.failure_message), at), task, cause, lines

    def _secrets(self, stored: StoredWorkflow, spec: WorkflowSpec, task: Task) -> Collection[str]:
        """Returns the secrets that it received. Raises NotFound, Conflict or ServerFault if they are no longer known."""
        tasks = spec.group(task.group).tasks
        uses = [use for each in tasks if each.name == task.spec for use in each.credentials]
        queued = [group.queued_time for group in stored.groups if group.name == task.group]
        times = [at for at in (task.start_time, task.end_time, *queued) if at is not None]
        return self._handed(stored.workflow.submitted_by, uses, min(times))


def _with_end(line: Lines) -> str:
    return f"{text_of(line)}\n" if line.whole else text_of(line)


def _shown(task: Task, cause: Cause, lines: list[str]) -> WorkflowCause:
    end = len(lines) if len(lines) - cause.first <= SHOWN or cause.last < 0 else cause.last + 1
    begin = max(0, end - SHOWN)
    first, last = (max(-1, max(at, begin) - begin) if cause.last >= 0 else -1 for at in (cause.first, cause.last))
    ending = in_words(task.exit_code or 0, task.failure_message)
    shown = tuple(lines[begin:end])
    block = (len(lines) - cause.first, len(lines) - cause.last) if cause.last >= 0 else (0, 0)
    return WorkflowCause(task.name, task.retry_id, task.exit_code, ending, cause.sentence, shown, first, last, block)


def first_failed(tasks: Iterable[Task]) -> list[Task]:
    """Returns the failed attempts, in the order in which they ended, without those that were stopped."""
    failed = [
        task
        for task in tasks
        if task.status.failed
        and task.status not in _TOLD_TO_STOP
        and task.exit_code is not None
        and task.end_time is not None
    ]
    return sorted(failed, key=lambda task: (task.end_time, task.key))
