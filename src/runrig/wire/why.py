"""Why a workflow waits: its reasons, its place in the queue, and who preempted it."""

from runrig.wire.base import Answer, example


class DomainRoomAnswer(Answer):
    """A domain that comes close: *have* pods would fit; *missing*, by resource, is what it lacks in sum, empty where it is scattered.

    *closed*: how many of its nodes take no pods, because they are not ready or tainted.  *spoken*: of what is missing, what is held
    there for gangs that have a place and wait for others to stop.
    """

    model_config = example(
        {"domain": ["zone-a", "rack-3"], "have": 6, "missing": {"gpu": 16}, "closed": 2, "spoken": {"gpu": 8}}
    )

    domain: list[str]
    have: int
    missing: dict[str, int]
    closed: int
    spoken: dict[str, int]


class ConcernedAnswer(Answer):
    """A pool or cohort that has to do with a reason, *amount* of its resource.

    *part*: `holds` it; `keeps` it idle by its lending limit; `drains`, being DELETING; or `safe`: held by LOW work that nobody may stop.
    *name* null: pools that you do not see, added up.
    """

    model_config = example({"part": "holds", "name": "vision", "amount": 4})

    part: str
    name: str | None
    amount: int


class ReasonAnswer(Answer):
    """Why a group waits.  *have* and *need* are amounts of *resource* at *where*; *sentence* says the same in words.

    *domains*: the best of the level, where no domain has enough.  *shared*: cohort → what it promises beyond *own*, the pool's quota.
    *gangs*: how many hold *have*, where the reason is who could be preempted; else 0.
    """

    model_config = example(
        {
            "code": "QuotaFull",
            "law": "P2",
            "where": "vision",
            "resource": "default/gpu",
            "have": 2,
            "need": 4,
            "holders": ["train-1"],
            "domains": [],
            "own": 0,
            "shared": {},
            "concerned": [],
            "gangs": 0,
            "sentence": "vision has 2 of its quota of default/gpu left, and it asks for 4; held by train-1",
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
    concerned: list[ConcernedAnswer]
    gangs: int
    sentence: str
