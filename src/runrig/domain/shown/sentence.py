"""Explains the state of a workflow, and why it is waiting, in a few sentences. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.gangs import Priority
from runrig.domain.quantities import GPU, FlavorResource, amount_in_words, amount_of_flavor, listed
from runrig.domain.reasons import Code
from runrig.domain.shown.why import GroupWhy, PoolEnding, Standstill, WorkflowCause, reason_set_aside
from runrig.domain.value import utc
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow, kind_of_group

MOST_NODES = 4
"""Maximum number of nodes that a sentence names."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The usage of a workflow's admitted gangs, and whether it can be reclaimed (rule R2).

    *nodes*: sorted names. *preemptible*: by its priority.
    *borrower*: the outermost of its pools that borrows a resource of the workflow, so that lenders can reclaim it; None
    if none does. *borrowed*: the borrowed amounts by resource.
    *subpools*: the pool's own usage exceeds its unallocated quota, so that its subpools can reclaim quota.
    """

    gpus: int
    nodes: tuple[str, ...]
    preemptible: bool
    borrower: str | None
    borrowed: Mapping[FlavorResource, int]
    subpools: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a workflow that the reader may see; the sentences of *groups* are set.

    *holding*: None while none of it is admitted. *spread*: groups that run in more domains than they prefer. *said*:
    messages of the backend. *cause*: of its failure. *ending*: the deletion of its pool. *standstill*, *doubt* (about
    the clock): None if it has ended.
    """

    workflow: Workflow
    groups: tuple[GroupWhy, ...] = ()
    holding: Holding | None = None
    spread: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    cause: WorkflowCause | None = None
    ending: PoolEnding | None = None
    standstill: Standstill | None = None
    doubt: str | None = None


def sentence(facts: Facts) -> str:
    """The state of the workflow, followed by all other facts, one sentence each."""
    parts = [*_standing(facts), *facts.spread, *facts.said]
    if facts.cause is not None:
        parts.append(_failure(facts.workflow, facts.cause))
    if facts.ending is not None:
        parts.append(_deletion(facts.workflow, facts.ending))
    if facts.standstill is not None:
        parts.append(f"No decisions since {utc(facts.standstill.since)}: {facts.standstill.why}")
    if facts.doubt is not None:
        parts.append(
            f"{facts.doubt[:1].upper()}{facts.doubt[1:]}. Until `runrig admin accept-clock`, time limits count only measured time"
        )
    return " ".join(f"{part.rstrip('.')}." for part in parts)


def _standing(facts: Facts) -> list[str]:
    """The first blocker, otherwise the state. Waiting for a running group of the same workflow is not a blocker."""
    workflow, groups, holding = facts.workflow, facts.groups, facts.holding
    if workflow.set_aside:
        return [f"{workflow.id} is waiting: {reason_set_aside(workflow)}"]
    ending = first_stopping(groups)
    group = first_of(groups if holding is None and ending is None else not_upstream(groups))
    if group is not None and group.reasons:
        return _waiting(workflow, group, alone=len(groups) == 1)
    if group is not None:
        return [f"{workflow.id} {starts(group.stops)}"]
    if ending is not None and (holding is None or ending.preempted_by):
        return [f"{workflow.id} is {stopping(ending)}"]
    if holding is not None:
        status = workflow.status.value if workflow.status is WorkflowStatus.RUNNING else "starting"
        part = [] if ending is None else [f"{_named(ending)} is {stopping(ending)}"]
        return [f"{workflow.id} is {status}{_held(holding)}", *part, _safety(workflow, holding)]
    code = None if facts.cause is None else facts.cause.exit_code
    told = code is not None and workflow.failure_message == f"exit code {code}"  # the cause has more details
    said = "" if told else workflow.failure_message
    return [f"{workflow.id} is {workflow.status.value}{f': {said}' if said else ''}"]


def _waiting(workflow: Workflow, group: GroupWhy, *, alone: bool) -> list[str]:
    reason = group.reasons[0]
    parts = [f"{workflow.id} is waiting: {reason.sentence}"]
    if reason.code is Code.HELD:
        parts.append(f"Release it with `runrig workflow release {workflow.id}`")
    if reason.code is Code.QUOTA_FULL and workflow.priority is Priority.HIGH:
        parts.append("HIGH workflows never borrow")
    if group.position:
        which = "Position" if alone else f"{_named(group)}: position"
        parts.append(f"{which} {group.position} in pool {workflow.pool}")
    return parts


def _named(group: GroupWhy) -> str:
    return f"{kind_of_group(group.group).capitalize()} {group.group}"


def _failure(workflow: Workflow, cause: WorkflowCause) -> str:
    """The last output is the cause only if the program failed by itself; a time limit is said before it."""
    attempt = f" --attempt {cause.attempt + 1}" if cause.attempt else ""
    logs = f"`runrig logs {workflow.id} --task {cause.task}{attempt}`"
    stopped = workflow.status.finished and workflow.status is not WorkflowStatus.FAILED
    said = f"{', last output' if stopped else ' failed'}: {cause.sentence} ({cause.ending})"
    return f"Task {cause.task}{said}. All output: {logs}"


def _deletion(workflow: Workflow, deletion: PoolEnding) -> str:
    """The deletion of its pool, and what that means for the workflow (rule S3)."""
    deleted = f"Pool {deletion.pool} was deleted by {deletion.by} at {utc(deletion.at)}"
    if not workflow.status.finished:
        return f"{deleted} and is {deletion.state.value}; running work finishes first"
    later = "" if deletion.state is deletion.then else f", and is {deletion.state.value} now"
    return f"{deleted}. It was {deletion.then.value} then{later}"


def starts(stops: Sequence[str]) -> str:
    """When a gang starts: in the next cycle, or after *stops* have stopped."""
    if not stops:
        return "starts in the next cycle"
    return f"starts when {listed(stops)} {'has' if len(stops) == 1 else 'have'} stopped"


_INSIDE = (Code.UPSTREAM, Code.ARRAY)
"""Reasons inside the workflow itself: other groups of it are running or queued."""


def first_of(groups: Sequence[GroupWhy]) -> GroupWhy | None:
    """The group that represents the workflow: one in the queue, otherwise one that starts, otherwise one that waits for
    other groups.
    """
    queued = [group for group in groups if group.reasons and group.reasons[0].code not in _INSIDE]
    starting = [group for group in groups if group.verdict is not None and group.verdict.starts]
    upstream = [group for group in groups if group.reasons and group not in queued]
    return next(iter((*queued, *starting, *upstream)), None)


def not_upstream(groups: Sequence[GroupWhy]) -> list[GroupWhy]:
    """Leaves out the groups that wait for others of the workflow."""
    return [group for group in groups if not group.reasons or group.reasons[0].code not in _INSIDE]


def first_stopping(groups: Sequence[GroupWhy]) -> GroupWhy | None:
    """The first group that was preempted, otherwise the first that is stopping for another reason."""
    preempted = [group for group in groups if group.preempted_by]
    return next(iter((*preempted, *(group for group in groups if group.stopping is not None))), None)


def stopping(group: GroupWhy) -> str:
    """``stopping: preempted by x-1``."""
    why = f"preempted by {group.preempted_by}" if group.preempted_by else group.stopping
    return f"stopping: {why}" if why else "stopping"


def _held(holding: Holding) -> str:
    """`` on n0 (2 GPUs)``."""
    gpus = amount_in_words(GPU, holding.gpus) if holding.gpus else "no GPUs"
    if not holding.nodes:
        return f" ({gpus})"
    nodes = listed(holding.nodes) if len(holding.nodes) <= MOST_NODES else f"{len(holding.nodes)} nodes"
    return f" on {nodes} ({gpus})"


def _safety(workflow: Workflow, holding: Holding) -> str:
    """Whether it can be preempted, and by which workflows (rules R1 to R3)."""
    if not holding.preemptible:
        return f"It cannot be preempted (priority {workflow.priority.value})"
    if holding.borrower is None:
        pools = f"pool {workflow.pool}{' and its subpools' if holding.subpools else ''}"
        return f"It is within its pool's quota; only HIGH and NORMAL workflows of {pools} can preempt it"
    several = len({key.flavor for key in holding.borrowed}) > 1
    borrowed = [amount_of_flavor(str(key), amount, named=several) for key, amount in sorted(holding.borrowed.items())]
    return f"Pool {holding.borrower} is borrowing {listed(borrowed)}, which the lending pools can reclaim"
