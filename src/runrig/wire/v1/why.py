"""Why a workflow waits, and what is known about its end."""

from datetime import datetime

from runrig.wire.base import example
from runrig.wire.v1.base import Shown
from runrig.wire.v1.changes import WorkflowChanges
from runrig.wire.v1.output import WorkflowCause
from runrig.wire.why import ReasonAnswer

_SUBMITTED = "2026-01-31T12:00:00.250000Z"
_STARTED = "2026-01-31T12:00:00.310000Z"


class Preemption(Shown):
    """*by* is the gang that needed the room; *law*: PRIORITY in the own pool, RECLAIM across pools.

    DRAIN: a node of it was drained (law N2), and *by* is empty.
    """

    model_config = example(
        {
            "at": _STARTED,
            "by": "train-1",
            "law": "RECLAIM",
            "sentence": "was preempted by train-1, which took back what was borrowed (law R2)",
        }
    )

    at: datetime
    by: str
    law: str
    sentence: str


class Blocker(Shown):
    """One condition that is not met, judged as if all others were.  *tier*: submission, order, quota, shape, preemption or waiting_for.

    *flavors*: the choice of flavors, one for each pod set, that it blocks; empty: every choice."""

    model_config = example({"tier": "quota", "flavors": ["default"], "reason": ReasonAnswer.example()})

    tier: str
    flavors: list[str]
    reason: ReasonAnswer


class QuotaLeft(Shown):
    """What *where* has left of *resource*, where no quota is in the way.  *of*: of so much that it was promised; null above the pool."""

    model_config = example({"where": "pool vision", "resource": "default/gpu", "have": 8, "of": 32})

    where: str
    resource: str
    have: int
    of: int | None


class GroupWhy(Shown):
    """*position* in the queue of the pool counts from 1 (0: it has a place and waits for *waits_for* to stop), null if it does not
    wait there; *ahead*: how many gangs of all pools are before it.

    *verdict*: what the next cycle does: STARTS, STARTS_AFTER_STOPS (of *stops*), WAITS, or NOT_PROVEN if too many are before it;
    null if it is not queued.  *blockers*: all that stands in its way, by tier; *reasons*: the first for each choice of flavors.

    Blockers are judged at the smallest size that it accepts; *in_full*: those of all its pods, if it accepts fewer.  *left*: what the
    quotas leave, if none is among the blockers.  *passed*: how many of its pool that were submitted later, with its priority or a lower
    one, have started since it is queued, 1,000 at most; 0 where the queue is STRICT_FIFO.

    Gangs of pools that you do not see appear as `work of another pool`, or as a count."""

    model_config = example(
        {
            "group": "main-group",
            "state": "SCHEDULING",
            "position": 2,
            "ahead": 4,
            "verdict": "WAITS",
            "stops": [],
            "reasons": [ReasonAnswer.example()],
            "blockers": [Blocker.example()],
            "in_full": [],
            "left": [],
            "passed": 12,
            "waits_for": [],
            "preempted": [Preemption.example()],
        }
    )

    group: str
    state: str
    position: int | None
    ahead: int | None
    verdict: str | None
    stops: list[str]
    reasons: list[ReasonAnswer]
    blockers: list[Blocker]
    in_full: list[Blocker]
    left: list[QuotaLeft]
    passed: int
    waits_for: list[str]
    preempted: list[Preemption]


class PoolEnding(Shown):
    """Who deleted the pool and when; *then*: the state that it took with it; *state*: how far it has come since."""

    model_config = example({"pool": "vision", "by": "ann", "at": _SUBMITTED, "then": "DELETING", "state": "ARCHIVED"})

    pool: str
    by: str
    at: datetime
    then: str
    state: str


class Standstill(Shown):
    """The server decides nothing *since* then: what it needs, mostly its cluster, cannot be had, or it is at fault itself."""

    model_config = example({"since": _SUBMITTED, "why": "the API server does not answer: connection refused"})

    since: datetime
    why: str


class WorkflowWhy(Shown):
    """*cause*: why it failed, where a program of its own did.

    *ending*: the deletion of its pool, if that cancelled the workflow or is going on while it runs; else null.

    *standstill*: why nothing is decided at present, about this workflow or another; null as long as all is well.

    *changes*: with which it would start; null if nobody asked, or if nothing of it is in the queue.
    """

    model_config = example(
        {
            "id": "train-3",
            "status": "PENDING",
            "sentence": "train-3 waits: vision has 2 of its quota of default/gpu left, and it asks for 4; "
            "held by train-1 (number 2 in the queue)",
            "cause": None,
            "groups": [GroupWhy.example()],
            "ending": None,
            "standstill": None,
            "changes": WorkflowChanges.example(),
        }
    )

    id: str
    status: str
    sentence: str
    cause: WorkflowCause | None
    groups: list[GroupWhy]
    ending: PoolEnding | None
    standstill: Standstill | None
    changes: WorkflowChanges | None = None


class Held(Shown):
    """*gangs* that wait for the same *reason*, with *gpus* at their full size.  *first*: the first of them in the queue.

    The numbers of *reason* are those of the first."""

    model_config = example({"reason": ReasonAnswer.example(), "gangs": 14, "gpus": 40, "first": ["train-3"]})

    reason: ReasonAnswer
    gangs: int
    gpus: int
    first: list[str]


class PoolWhy(Shown):
    """What waits in a pool, without its subpools, the most frequent blocker first.

    *gangs*, *gpus*: in the queue. Work on hold is in *held* only, under law W3.
    *unasked*: gangs that nobody was asked about, because there are too many kinds of them."""

    model_config = example({"pool": "vision", "gangs": 14, "gpus": 40, "held": [Held.example()], "unasked": 0})

    pool: str
    gangs: int
    gpus: int
    held: list[Held]
    unasked: int
