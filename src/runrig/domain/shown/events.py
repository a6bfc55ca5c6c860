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
        text="sweep-3 was preempted by train-1, whose pool reclaimed borrowed quota (rule R2)",
    )
)


class WorkflowEventPage(Page[WorkflowEvent]):
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class ClusterEvent(Shown):
    """An entry of the cluster's event log. *revision*: the commit. *seq*: position in the commit.

    *workflow*, *pool*: the subject of the event; both null if it is about nodes, flavors or cohorts.
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


shown_as(
    ClusterEvent(
        revision=7,
        seq=0,
        time=_TIME,
        actor="engine",
        kind="Admit",
        law="",
        text="train-1/main-group is admitted on n00 (GPU 0-3)",
        workflow="train-1",
        pool="vision",
    )
)


@dataclass(frozen=True, slots=True)
class ClusterEventPage(Page[ClusterEvent]):
    """Oldest first. *revision*: of the last event of the log, even if you cannot see it; a stream can continue from
    there.
    """

    revision: int


shown_as(ClusterEventPage(None, (example(ClusterEvent),), 7))
