"""Explanations: why a workflow is waiting, which gangs preempted it, and which gangs are waiting in a pool."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.blockers import Blocker, QuotaLeft, Verdict
from runrig.domain.budgets import HOUR, Owner, Spent, next_month
from runrig.domain.gangs import Priority
from runrig.domain.pools import BudgetReached, Declared, PoolState
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.changes import WorkflowChanges
from runrig.domain.value import Shown, at, example, shown_as, utc
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Workflow

_SUBMITTED, _STARTED = at(1769860800.25), at(1769860800.31)


@dataclass(frozen=True, slots=True)
class Preemption(Shown):
    """*by*: the gang that needed the nodes or quota. *law*: PRIORITY within the same pool, RECLAIM across pools.

    DRAIN: one of its nodes was drained (rule N2); *by* is empty.
    """

    UNTOLD = ("gang",)

    at: datetime
    by: str
    law: str
    sentence: str
    gang: str = ""


shown_as(
    Preemption(
        _STARTED,
        "train-1",
        "RECLAIM",
        "was preempted by train-1, whose pool reclaimed borrowed quota (Reclaim, rule R2)",
    )
)


@dataclass(frozen=True, slots=True)
class GroupWhy(Shown):
    """*position*: in the queue of the pool, from 1; 0 if it has reserved nodes and waits for *waits_for* to stop; null
    if it is not queued. *ahead*: number of gangs of all pools ahead of it.

    *verdict*: the effect of the next cycle: STARTS, STARTS_AFTER_STOPS (of *stops*), WAITS, or NOT_PROVEN if too many
    gangs are ahead; null if it is not queued. *blockers*: all conditions that are not met, by tier. *reasons*: the
    first one for each choice of flavors.

    Blockers are determined for the smallest size that it accepts; *in_full*: for all its pods, if it accepts fewer.
    *left*: the remaining quotas, if quota is not a blocker. *passed*: how many gangs of its pool with the same or a
    lower priority were submitted later but started while it was queued, at most 1,000; 0 if the queue is STRICT_FIFO.

    Gangs in pools that you cannot see appear as `work of another pool`, or as a count.
    """

    UNTOLD = ("preempted_by", "stopping", "queued_time")

    group: str
    state: Status
    position: int | None = None
    ahead: int | None = None
    verdict: Verdict | None = None
    stops: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    in_full: tuple[Blocker, ...] = ()
    left: tuple[QuotaLeft, ...] = ()
    passed: int = 0
    waits_for: tuple[str, ...] = ()
    preempted: tuple[Preemption, ...] = ()
    preempted_by: str | None = None
    """The gang that preempted it; None if it was not preempted."""
    stopping: str | None = None
    """Why it is stopping, for other reasons; None if it is not."""
    queued_time: float | None = None
    """When it was queued, in seconds since the epoch; None if it is not queued."""


shown_as(
    GroupWhy(
        "main-group",
        Status.SCHEDULING,
        position=2,
        ahead=4,
        verdict=Verdict.WAITS,
        reasons=(example(Reason),),
        blockers=(example(Blocker),),
        passed=12,
        preempted=(example(Preemption),),
    )
)


@dataclass(frozen=True, slots=True)
class WorkflowCause(Shown):
    """Why a workflow failed, by the output of its tasks: the first task whose own program failed, rather than one that
    only reacted to the failure of another.

    *attempt*: from 0. *ending*: its exit code in words. *lines*: up to 20 lines of output, oldest first. *first*,
    *last*: the range of lines that shows the cause, from 0; -1 if none does.
    """

    UNTOLD = ("block",)

    task: str
    attempt: int
    exit_code: int | None
    ending: str
    sentence: str
    lines: tuple[str, ...]
    first: int
    last: int
    block: tuple[int, int] = (0, 0)
    """The same range in the whole output of the attempt, counted from its last line, which is 1; (0, 0): no lines."""


shown_as(
    WorkflowCause(
        task="main",
        attempt=0,
        exit_code=1,
        ending="exit code 1",
        sentence="KeyError: 'state_dict'",
        lines=(
            "Traceback (most recent call last):",
            '  File "train.py", line 88, in <module>',
            "KeyError: 'state_dict'",
        ),
        first=0,
        last=2,
    )
)


@dataclass(frozen=True, slots=True)
class PoolEnding(Shown):
    """The deletion of a pool. *then*: the state after the deletion. *state*: the current state."""

    UNTOLD = ("revision",)

    pool: str
    by: str
    at: datetime
    then: PoolState
    state: PoolState
    revision: int = 0

    def __str__(self) -> str:
        return f"it was deleted by {self.by} at {utc(self.at)}"


shown_as(PoolEnding("vision", "ann", _SUBMITTED, PoolState.DELETING, PoolState.ARCHIVED))


@dataclass(frozen=True, slots=True)
class Standstill(Shown):
    """The server has not made decisions *since* this time: it cannot reach its cluster or database, or it has an
    internal error.
    """

    UNTOLD = ("unreachable",)

    since: datetime
    why: str
    unreachable: bool = False
    """Whether it cannot reach its database or its cluster; False for an internal error."""


shown_as(Standstill(_SUBMITTED, "the API server does not answer: connection refused"))


@dataclass(frozen=True, slots=True)
class WorkflowWhy(Shown):
    """*cause*: why it failed, if one of its own programs did.

    *ending*: the deletion of its pool, if that cancelled the workflow or is still in progress; otherwise null.

    *standstill*: why the server currently makes no decisions about any workflow; null if it does.

    *changes*: changes that would start it; null if they were not requested, or if none of it is queued.
    """

    id: str
    status: WorkflowStatus
    sentence: str
    cause: WorkflowCause | None
    groups: tuple[GroupWhy, ...]
    ending: PoolEnding | None
    standstill: Standstill | None
    changes: WorkflowChanges | None = None


shown_as(
    WorkflowWhy(
        id="train-3",
        status=WorkflowStatus.PENDING,
        sentence="train-3 is waiting: needs 4 GPUs, but pool vision has only 2 GPUs left of its quota; in use by train-1. "
        "Position 2 in pool vision.",
        cause=None,
        groups=(example(GroupWhy),),
        ending=None,
        standstill=None,
        changes=example(WorkflowChanges),
    )
)


@dataclass(frozen=True, slots=True)
class WaitingAlike(Shown):
    """*gangs*: number of gangs that wait for the same *reason*. *gpus*: their GPUs at full size. *first*: the first of
    them in the queue.

    The numbers in *reason* apply to the first one.
    """

    reason: Reason
    gangs: int
    gpus: int
    first: tuple[str, ...]


shown_as(WaitingAlike(example(Reason), 14, 40, ("train-3",)))


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """A gang at its place in the queue of its pool. *gpus*: at full size. *reason* None: it was not computed."""

    gang: str
    priority: Priority
    gpus: int
    submitted_at: float
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class PoolWhy(Shown):
    """The waiting gangs of a pool without its subpools, by blocker, the most frequent one first.

    *gangs*, *gpus*: in the queue. Workflows on hold (rule W3) and those of a paused pool (rule S8) are only in *held*.
    *unasked*: number of gangs whose reason was not computed, because the queue has too many kinds of gangs.
    """

    UNTOLD = ("places",)

    pool: str
    gangs: int
    gpus: int
    held: tuple[WaitingAlike, ...]
    unasked: int
    places: tuple[WaitingPlace, ...] = ()
    """The front of the queue, in order."""


shown_as(PoolWhy("vision", 14, 40, (example(WaitingAlike),), 0))


def reason_set_aside(workflow: Workflow) -> Reason:
    """The reason why *workflow*, which the server set aside, does not continue."""
    return Reason(Code.SET_ASIDE, "W8", where=workflow.id, since=workflow.held_since)


def reason_budget(spent: Spent, budget: int) -> Reason:
    """The reason why nothing starts, or only LOW work, where *budget* is reached, in GPU-hours."""
    pool, user = (spent.name, "") if spent.of == Owner.POOL else ("", spent.name)
    low = "LOW" if spent.stops is BudgetReached.BORROW else ""
    until = next_month(spent.month)
    return Reason(
        Code.BUDGET, "W7", where=pool, have=spent.held // HOUR, own=budget, until=until, said=user, stopped=low
    )


def reason_paused(pool: Declared) -> Reason:
    """The reason why nothing starts in *pool*, which is paused, and in its subpools."""
    since, until = pool.paused_since, pool.paused_until
    return Reason(Code.PAUSED, "S8", where=pool.name, since=since, until=until, said=pool.paused_reason)
