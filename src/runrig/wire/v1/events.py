"""Events, in the order in which they happened."""

from datetime import datetime

from runrig.wire.base import example
from runrig.wire.v1.base import Page, Shown

_TIME = "2026-01-31T12:00:00.310000Z"


class WorkflowEvent(Shown):
    """*kind* is the name of the action, *text* the same in words, *law* the rule behind it or "".

    In an event that a program of the cluster noted, *actor* is the program, *kind* its reason, and *revision* and *seq* are null.
    """

    model_config = example(
        {
            "revision": 7,
            "seq": 1,
            "time": _TIME,
            "actor": "engine",
            "kind": "Preempt",
            "law": "RECLAIM",
            "text": "sweep-3 was preempted by train-1, which takes back what was borrowed (law R2)",
        }
    )

    revision: int | None
    seq: int | None
    time: datetime
    actor: str
    kind: str
    law: str
    text: str


class WorkflowEventPage(Page):
    """In order."""

    model_config = example({"items": [WorkflowEvent.example()], "next_cursor": None})

    items: list[WorkflowEvent]


class ClusterEvent(Shown):
    """An entry of the log of the whole cluster.  *revision*: the commit, *seq*: its place in it.

    *workflow*, *pool*: what it is about; both null: nodes, flavors or cohorts.
    """

    model_config = example(
        {
            "revision": 7,
            "seq": 0,
            "time": _TIME,
            "actor": "engine",
            "kind": "Admit",
            "law": "",
            "text": "train-1/main-group is admitted on n00 (GPU 0-3)",
            "workflow": "train-1",
            "pool": "vision",
        }
    )

    revision: int
    seq: int
    time: datetime
    actor: str
    kind: str
    law: str
    text: str
    workflow: str | None
    pool: str | None


class ClusterEventPage(Page):
    """In order.  *revision*: of the last event of the log, seen or not: where a stream can go on."""

    model_config = example({"items": [ClusterEvent.example()], "next_cursor": None, "revision": 7})

    items: list[ClusterEvent]
    revision: int
