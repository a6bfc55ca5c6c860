"""Why a workflow waits: its reasons, its place in the queue, and who preempted it."""

from datetime import datetime

from runrig.wire.base import Answer, example


class DomainRoomAnswer(Answer):
    """A domain that comes close: *have* pods would fit; *missing*, by resource, is what it lacks in sum, empty where it is scattered."""

    model_config = example({"domain": ["zone-a", "rack-3"], "have": 6, "missing": {"gpu": 16}})

    domain: list[str]
    have: int
    missing: dict[str, int]


class ReasonAnswer(Answer):
    """Why a group waits.  *have* and *need* are amounts of *resource* at *where*; *sentence* says the same in words.

    *domains*: the best of the level, where no domain has enough.  *shared*: cohort → what it promises beyond *own*, the pool's quota.
    """

    model_config = example(
        {
            "code": "QuotaFull",
            "law": "P2",
            "where": "vision",
            "resource": "default/gpu",
            "have": 2,
            "need": 4,
            "holders": ["train-1/main-group"],
            "domains": [],
            "own": 0,
            "shared": {},
            "sentence": "vision has 2 of its quota of default/gpu left, and it asks for 4; held by train-1/main-group",
        }
    )

    code: str
    law: str
    where: str
    resource: str
    have: int
    need: int
    holders: list[str]
    domains: list[DomainRoomAnswer]
    own: int
    shared: dict[str, int]
    sentence: str


class PreemptionAnswer(Answer):
    """*by* is the gang that needed the room; *law*: PRIORITY in the own pool, RECLAIM across pools."""

    model_config = example(
        {
            "at": "2026-01-31T12:00:00.310000",
            "by": "train-1/main-group",
            "law": "RECLAIM",
            "sentence": "was preempted by train-1/main-group, which took back what was borrowed (law R2)",
        }
    )

    at: datetime
    by: str
    law: str
    sentence: str


class GroupWhyAnswer(Answer):
    """*position* in the queue of the pool counts from 1 (0: it has a place and waits for *waits_for* to stop), null if it does not
    wait there; *ahead*: how many gangs of all pools are before it.

    Gangs of pools that you do not see are told as `work of another pool`, or counted, here and in reasons and events."""

    model_config = example(
        {
            "group": "main-group",
            "state": "SCHEDULING",
            "position": 2,
            "ahead": 4,
            "reasons": [ReasonAnswer.example()],
            "waits_for": [],
            "preempted": [PreemptionAnswer.example()],
        }
    )

    group: str
    state: str
    position: int | None
    ahead: int | None
    reasons: list[ReasonAnswer]
    waits_for: list[str]
    preempted: list[PreemptionAnswer]


class PoolEndingAnswer(Answer):
    """That the pool was deleted: by whom and when, *then* the state that it took with it, *state* how far it has come since."""

    model_config = example(
        {"pool": "vision", "by": "ann", "at": "2026-01-31T12:00:00", "then": "DELETING", "state": "ARCHIVED"}
    )

    pool: str
    by: str
    at: datetime
    then: str
    state: str


class StandstillAnswer(Answer):
    """The server decides nothing *since* then: what it needs, mostly its cluster, cannot be had, or it is at fault itself."""

    model_config = example(
        {
            "since": "2026-01-31T12:00:00",
            "why": "the API server https://10.0.0.1:6443 does not answer: connection refused",
        }
    )

    since: datetime
    why: str


class WhyAnswer(Answer):
    """*ending*: the deletion of its pool, if that cancelled the workflow or is going on while it runs; else null.

    *standstill*: why nothing is decided at present, about this workflow or another; null as long as all is well.
    """

    model_config = example(
        {
            "workflow": "train-3",
            "status": "PENDING",
            "groups": [GroupWhyAnswer.example()],
            "sentence": "train-3 waits: vision has 2 of its quota of default/gpu left, and it asks for 4; "
            "held by train-1/main-group (main-group is number 2 in the queue)",
            "ending": None,
            "standstill": None,
        }
    )

    workflow: str
    status: str
    groups: list[GroupWhyAnswer]
    sentence: str
    ending: PoolEndingAnswer | None = None
    standstill: StandstillAnswer | None = None
