"""Events of a workflow and of the whole cluster, in words."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.value import Page, Shown, at, example, shown_as

_TIME = at(1769860800.31)


@dataclass(frozen=True, slots=True)
class WorkflowEvent(Shown):
    """*kind*: the name of the action.  *text*: the action in words.  *law*: the rule behind it, or "".

    If a program of the cluster recorded the event, *actor* is the program, *kind* its reason, and *revision* and *seq* are null.
    """

    UNTOLD = ("place",)

    revision: int | None
    seq: int | None
    time: datetime
    actor: str
    kind: str
    law: str
    text: str
    place: tuple[float, int, int, int] = (0.0, 0, 0, 0)
    """The position among all events of the workflow; events that the cluster records later do not change it."""


shown_as(
    WorkflowEvent(
        revision=7,
        seq=1,
        time=_TIME,
        actor="engine",
        kind="Preempt",
        law="RECLAIM",
        text="sweep-3 was preempted by train-1, whose pool reclaimed borrowed quota (Reclaim, rule R2)",
    )
)


class WorkflowEventPage(Page[WorkflowEvent]):
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class RuledOut(Shown):
    """A gang that would have cost less to preempt, but could not be used. *law*: R2 or R3. *reason*: the law in words."""

    gang: str
    law: str
    reason: str


shown_as(RuledOut("sweep-2", "R2", "its pool is within its quota"))


@dataclass(frozen=True, slots=True)
class ClusterEvent(Shown):
    """An entry of the cluster's event log. *revision*: the commit. *seq*: position in the commit.

    *workflow*, *pool*: the subject of the event; both null if it is about nodes, flavors or cohorts. *preemptor*:
    of a preemption, else null. *ruled_out*: of a preemption, up to 8 lower-cost candidates. Workflows of pools that
    you cannot see have no name there.
    """

    revision: int
    seq: int
    time: datetime
    actor: str
    kind: str
    law: str
    text: str
    workflow: str | None
    pool: str | None
    preemptor: str | None = None
    ruled_out: tuple[RuledOut, ...] = ()


shown_as(
    ClusterEvent(
        revision=7,
        seq=0,
        time=_TIME,
        actor="engine",
        kind="Preempt",
        law="R2",
        text="sweep-3 was preempted by train-1, whose pool reclaimed borrowed quota (Reclaim, rule R2)"
        "; lower-cost candidates ruled out: sweep-2 (its pool is within its quota)",
        workflow="sweep-3",
        pool="speech",
        preemptor="train-1",
        ruled_out=(example(RuledOut),),
    )
)


@dataclass(frozen=True, slots=True)
class ClusterEventPage(Page[ClusterEvent]):
    """Oldest first. *revision*: of the last event of the log, even if you cannot see it; a stream can continue from
    there. *head*: hash of the newest commit, for `runrig verify --head`; null: the log has no hashes yet.
    """

    revision: int
    head: str | None


shown_as(
    ClusterEventPage(
        None, (example(ClusterEvent),), 7, "3f9c0a7e51b2d8c64e90f1a3b7d5c28e6a04f9b1d3c7e582a60b94f8d1e3c57a"
    )
)
