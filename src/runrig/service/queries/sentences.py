"""Why a workflow waits, or how it stands, in one sentence."""

from collections.abc import Iterable

from runrig.domain.gangs import Priority
from runrig.domain.quantities import GPU, amount_in_a_sentence, amount_in_words
from runrig.domain.reasons import Code
from runrig.domain.shown.why import GroupWhy, PoolEnding, WorkflowCause
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Task, Workflow
from runrig.engine.explain.headlines import first_of, starts
from runrig.engine.explain.report import Hold
from runrig.engine.explain.why import reason_set_aside

MOST_NODES = 4
"""How many nodes a sentence names."""
_TOLD_TO_STOP = (Status.FAILED_CANCELED, Status.FAILED_PREEMPTED, Status.FAILED_UPSTREAM)


def sentence_of(
    workflow: Workflow, groups: tuple[GroupWhy, ...], hold: Hold | None, exit_code: int | None = None
) -> str:
    """The first blocker in words, else the state.  A group that waits for a running group of the workflow is not blocked.

    *exit_code*: of the task that failed, if more is told of it behind this sentence.
    """
    if workflow.set_aside:
        return f"{workflow.id} waits: {reason_set_aside(workflow)}"
    group = first_of([group for group in groups if hold is None or not _waits_for_upstream(group)])
    if group is not None and group.reasons:
        who = f"{group.group} is " if len(groups) > 1 else ""
        where = f" ({who}number {group.position} in the queue)" if group.position else ""
        full = group.reasons[0].code is Code.QUOTA_FULL and workflow.priority is Priority.HIGH
        never = "; HIGH never borrows" if full else ""
        return f"{workflow.id} waits: {group.reasons[0].sentence}{never}{where}"
    if group is not None:
        return f"{workflow.id} {starts(group.stops)}"
    preemptor = next((group.preempted_by for group in groups if group.preempted_by), None)
    if preemptor is not None:
        return f"{workflow.id} stops: it is preempted by {preemptor}"
    if hold is not None:
        status = workflow.status.value if workflow.status is WorkflowStatus.RUNNING else "starting"
        return f"{workflow.id} is {status} with {_held(hold)}; {_safety(hold, workflow.priority)}"
    said = (
        ""
        if exit_code is not None and workflow.failure_message == f"exit code {exit_code}"
        else workflow.failure_message
    )
    return f"{workflow.id} is {workflow.status.value}{f': {said}' if said else ''}"


def first_failed(tasks: Iterable[Task]) -> list[Task]:
    """The attempts that failed, the first to end first, without those that were told to stop."""
    failed = [
        task
        for task in tasks
        if task.status.failed
        and task.status not in _TOLD_TO_STOP
        and task.exit_code is not None
        and task.end_time is not None
    ]
    return sorted(failed, key=lambda task: (task.end_time, task.key))


def failure_of(id: str, cause: WorkflowCause) -> str:
    attempt = f" --attempt {cause.attempt + 1}" if cause.attempt else ""
    logs = f"`runrig workflow logs {id} --task {cause.task}{attempt}`"
    return f"; {cause.task} failed: {cause.sentence} ({cause.ending}); all it wrote: {logs}"


def deletion_in_words(workflow: Workflow, deletion: PoolEnding) -> str:
    """Law S3: who deleted its pool, and what that means for the workflow."""
    if not workflow.status.finished:
        return f"; pool {deletion.pool} is DELETING ({deletion}), and what has started there goes on to its end"
    later = "" if deletion.state is deletion.then else f", and {deletion.state.value} later"
    return f"; pool {deletion.pool} became {deletion.then.value} with that{later}: {deletion}"


def _waits_for_upstream(group: GroupWhy) -> bool:
    return bool(group.reasons) and group.reasons[0].code is Code.UPSTREAM


def _held(hold: Hold) -> str:
    gpus = amount_in_words(GPU, hold.gpus) if hold.gpus else "no GPU"
    if not hold.nodes:
        return gpus
    return f"{gpus} on {', '.join(hold.nodes) if len(hold.nodes) <= MOST_NODES else f'{len(hold.nodes)} nodes'}"


def _safety(hold: Hold, priority: Priority) -> str:
    """Whether it could be preempted, and by whom (laws R1, R2, R3)."""
    if not hold.preemptible:
        return f"{priority.value} is never preempted"
    if hold.borrower is None:
        below = " and its subpools" if hold.subpools else ""
        return f"{priority.value} within its pool's quota: only HIGH and NORMAL of its own pool{below} can preempt it"
    borrowed = [
        amount_in_words(GPU, amount)
        if key.resource == GPU
        else f"{amount_in_a_sentence(key.resource, amount)} of {key}"
        for key, amount in sorted(hold.borrowed.items())
    ]
    return f"pool {hold.borrower} borrows {' and '.join(borrowed)}: RECLAIM may take it back"
