"""Why a workflow waits, or how it stands, in one sentence.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.gangs import Priority
from runrig.domain.quantities import GPU, FlavorResource, amount_in_a_sentence, amount_in_words
from runrig.domain.reasons import Code
from runrig.domain.shown.why import GroupWhy, PoolEnding, Standstill, WorkflowCause, reason_set_aside
from runrig.domain.value import utc
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow

MOST_NODES = 4
"""How many nodes a sentence names."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The holding of the admitted gangs of a workflow, and whether law R2 (reclaim) can stop them.

    *nodes*: sorted names.  *preemptible*: by its priority.  *borrower*: the outermost pool above it that holds more than its nominal
    of a resource that the workflow uses, so that its LOW work may be reclaimed; None if no pool does.  *borrowed*: that excess by
    resource.  *subpools*: True if its pool's own work holds more than is unallocated, which the pool's subpools may take back.
    """

    gpus: int
    nodes: tuple[str, ...]
    preemptible: bool
    borrower: str | None
    borrowed: Mapping[FlavorResource, int]
    subpools: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a workflow, as the asker may see it: *groups* have their sentences.

    *hold*: None while nothing of it is admitted.  *spread*: on how many domains its groups lie that prefer one.  *said*: by the backend.
    *cause*: what it failed of.  *ending*: of its pool.  *standstill* and *doubt* (about the clock) concern only who has not ended.
    """

    workflow: Workflow
    groups: tuple[GroupWhy, ...] = ()
    hold: Hold | None = None
    spread: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    cause: WorkflowCause | None = None
    ending: PoolEnding | None = None
    standstill: Standstill | None = None
    doubt: str | None = None


def sentence(facts: Facts) -> str:
    """First how it stands, then all that is known besides."""
    parts = [_standing(facts), *facts.spread, *facts.said]
    if facts.cause is not None:
        parts.append(_failure(facts.workflow.id, facts.cause))
    if facts.ending is not None:
        parts.append(_deletion(facts.workflow, facts.ending))
    if facts.standstill is not None:
        parts.append(f"nothing is decided since {utc(facts.standstill.since)}: {facts.standstill.why}")
    if facts.doubt is not None:
        parts.append(f"{facts.doubt}: limits count only what has passed until `runrig admin accept-clock`")
    return "; ".join(parts)


def _standing(facts: Facts) -> str:
    """The first blocker in words, else the state.  A group that waits for a running group of the workflow is not blocked."""
    workflow, groups, hold = facts.workflow, facts.groups, facts.hold
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
    code = None if facts.cause is None else facts.cause.exit_code
    told = code is not None and workflow.failure_message == f"exit code {code}"  # the cause tells more
    said = "" if told else workflow.failure_message
    return f"{workflow.id} is {workflow.status.value}{f': {said}' if said else ''}"


def _failure(id: str, cause: WorkflowCause) -> str:
    attempt = f" --attempt {cause.attempt + 1}" if cause.attempt else ""
    logs = f"`runrig workflow logs {id} --task {cause.task}{attempt}`"
    return f"{cause.task} failed: {cause.sentence} ({cause.ending}); all it wrote: {logs}"


def _deletion(workflow: Workflow, deletion: PoolEnding) -> str:
    """Law S3: who deleted its pool, and what that means for the workflow."""
    if not workflow.status.finished:
        return f"pool {deletion.pool} is DELETING ({deletion}), and what has started there goes on to its end"
    later = "" if deletion.state is deletion.then else f", and {deletion.state.value} later"
    return f"pool {deletion.pool} became {deletion.then.value} with that{later}: {deletion}"


def starts(stops: Sequence[str]) -> str:
    """Says that a gang starts, after *stops* have stopped."""
    if not stops:
        return "starts in the next cycle"
    return f"starts once {', '.join(stops)} {'has' if len(stops) == 1 else 'have'} stopped, as the next cycle decides"


def first_of(groups: Sequence[GroupWhy]) -> GroupWhy | None:
    """The group that a sentence about the workflow is about: one that waits in the queue, one that starts, one that waits for others."""
    queued = [group for group in groups if group.reasons and group.reasons[0].code is not Code.UPSTREAM]
    starting = [group for group in groups if group.verdict is not None and group.verdict.starts]
    upstream = [group for group in groups if group.reasons and group not in queued]
    return next(iter((*queued, *starting, *upstream)), None)


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
