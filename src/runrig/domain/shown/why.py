"""Why a workflow waits, who preempted it, and what waits in a pool."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.blockers import Blocker, QuotaLeft, Verdict
from runrig.domain.pools import PoolState
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.changes import WorkflowChanges
from runrig.domain.value import Shown, at, example, shown_as, utc
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Workflow

_SUBMITTED, _STARTED = at(1769860800.25), at(1769860800.31)


@dataclass(frozen=True, slots=True)
class Preemption(Shown):
    """*by* is the gang that needed the room; *law*: PRIORITY in the own pool, RECLAIM across pools.

    DRAIN: a node of it was drained (law N2), and *by* is empty.
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
    """*position* in the queue of the pool counts from 1 (0: nodes are reserved, and it waits for *waits_for* to stop), null if it is not
    queued; *ahead*: how many gangs of all pools are before it.

    *verdict*: what the next cycle does: STARTS, STARTS_AFTER_STOPS (of *stops*), WAITS, or NOT_PROVEN if too many are before it;
    null if it is not queued.  *blockers*: all that stands in its way, by tier; *reasons*: the first for each choice of flavors.

    Blockers are judged at the smallest size that it accepts; *in_full*: those of all its pods, if it accepts fewer.  *left*: what the
    quotas leave, if none is among the blockers.  *passed*: how many of its pool that were submitted later, with its priority or a lower
    one, have started since it is queued, 1,000 at most; 0 where the queue is STRICT_FIFO.

    Gangs of pools that you do not see appear as `work of another pool`, or as a count."""

    UNTOLD = ("preempted_by", "queued_time")

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
    queued_time: float | None = None
    """Since when it is in the queue, in seconds since the epoch; None if it is not."""


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
    """Why it failed, by what its tasks wrote: of those that failed by their own program the first, but for programs that only saw
    another one die.  *attempt* counts from 0; *ending*: its exit code in words.  *lines*: up to 20, in the order of time,
    of which *first* to *last*, from 0, tell the cause; -1: none does."""

    task: str
    attempt: int
    exit_code: int | None
    ending: str
    sentence: str
    lines: tuple[str, ...]
    first: int
    last: int


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
    """Who deleted the pool and when; *then*: the state that it took with it; *state*: how far it has come since."""

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
    """The server decides nothing *since* then: what it needs, mostly its cluster, cannot be had, or it is at fault itself."""

    UNTOLD = ("unreachable",)

    since: datetime
    why: str
    unreachable: bool = False
    """The server cannot reach its database or its cluster; otherwise the fault is its own."""


shown_as(Standstill(_SUBMITTED, "the API server does not answer: connection refused"))


@dataclass(frozen=True, slots=True)
class WorkflowWhy(Shown):
    """*cause*: why it failed, where a program of its own did.

    *ending*: the deletion of its pool, if that cancelled the workflow or is going on while it runs; else null.

    *standstill*: why nothing is decided at present, about this workflow or another; null as long as all is well.

    *changes*: with which it would start; null if nobody asked, or if nothing of it is in the queue.
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
    """*gangs* that wait for the same *reason*, with *gpus* at their full size.  *first*: the first of them in the queue.

    The numbers of *reason* are those of the first."""

    reason: Reason
    gangs: int
    gpus: int
    first: tuple[str, ...]


shown_as(WaitingAlike(example(Reason), 14, 40, ("train-3",)))


@dataclass(frozen=True, slots=True)
class PoolWhy(Shown):
    """What waits in a pool, without its subpools, the most frequent blocker first.

    *gangs*, *gpus*: in the queue. Work on hold is in *held* only, under law W3.
    *unasked*: gangs that nobody was asked about, because there are too many kinds of them."""

    pool: str
    gangs: int
    gpus: int
    held: tuple[WaitingAlike, ...]
    unasked: int


shown_as(PoolWhy("vision", 14, 40, (example(WaitingAlike),), 0))


def reason_set_aside(workflow: Workflow) -> Reason:
    """Why *workflow*, which the server set aside, goes no further, wherever it is."""
    return Reason(Code.SET_ASIDE, "W8", where=workflow.id, since=workflow.held_since)
