"""Plans: what an edit would do."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field, model_validator

from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.wire.base import Request, Whole, example
from runrig.wire.meta import ChangeAnswer
from runrig.wire.v1.base import Shown
from runrig.wire.v1.workflows import WorkflowSubmit

MOST_NODES = 10_000


class PlanRequest(Request):
    """One of *file*, *pool* with *quota*, *drain*, *down*, *submission*.

    *file*: the text of a cluster file, *prune* as of apply.  *quota*: GPUs, or as text.  *drain*: nodes, as `nodes:drain` would empty
    them, with *force* or without.  *down*: all nodes of a domain of the topology are lost with their pods; by its name, or by its path
    where several have the name.
    """

    model_config = example({"pool": "vision", "quota": 96})

    file: str | None = None
    prune: bool = False
    pool: str | None = None
    quota: Whole | str | dict[str, Any] | None = None
    drain: list[str] | None = Field(default=None, min_length=1, max_length=MOST_NODES)
    force: bool = False
    down: str | None = Field(default=None, min_length=1)
    submission: WorkflowSubmit | None = None

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        asked = [self.file, self.pool, self.drain, self.down, self.submission]
        if sum(each is not None for each in asked) != 1:
            raise ValueError("a plan is about one thing: file, pool, drain, down or submission")
        if (self.pool is None) != (self.quota is None):
            raise ValueError("pool and quota belong together")
        if self.force and self.drain is None:
            raise ValueError("force is of drain")
        return self


class PlanGang(Shown):
    """*gpus*: what it holds; of one that waits, what it asks for."""

    model_config = example({"gang": "parse-71/train", "pool": "nlp", "priority": "LOW", "gpus": 16})

    gang: str
    pool: str
    priority: str
    gpus: int


class PlanStart(PlanGang):
    model_config = example({**PlanGang.example(), "nodes": ["n1411", "n1412"]})

    nodes: list[str]


class PlanPreempted(PlanGang):
    """*by*: the gang that starts instead.  *law*: PRIORITY (R1) or RECLAIM (R2).  *again*: it has another place at once."""

    model_config = example({**PlanGang.example(), "by": "moe-70b-3/train", "law": "RECLAIM", "again": False})

    by: str
    law: str
    again: bool


class PlanLoss(PlanGang):
    """*then*: `queued`, `elsewhere`, or the status in which its group is over."""

    model_config = example({**PlanGang.example(), "cause": "FAILED_BACKEND_ERROR", "then": "queued"})

    cause: str
    then: str


class PlanNever(PlanGang):
    model_config = example({**PlanGang.example(), "why": "it asks for 16 of default/gpu in one gang, and ..."})

    why: str


class PlanExposed(Shown):
    """A pool that holds more than its nominal, so that its LOW work is no longer safe (law R2).  *gangs*: who would go first in front."""

    model_config = example(
        {"pool": "vision", "resource": "default/gpu", "held": 112, "nominal": 96, "gangs": [PlanGang.example()]}
    )

    pool: str
    resource: str
    held: int
    nominal: int
    gangs: list[PlanGang]


class PlanDrain(Shown):
    """*until*: when the last of it has to end; null: something there has no exec_timeout, or has not started."""

    model_config = example({"pool": "old", "workflows": 3, "gpus": 24, "until": "2026-01-31T17:40:00Z"})

    pool: str
    workflows: int
    gpus: int
    until: datetime | None


class PlanPoolRow(Shown):
    """GPUs.  *state* null: there is no such pool.  *waiting*: gangs in its queue."""

    model_config = example({"state": "ACTIVE", "quota": 96, "used": 72, "total": 112, "available": 24, "waiting": 14})

    state: str | None
    quota: int
    used: int
    total: int
    available: int
    waiting: int


class PlanPool(Shown):
    """A pool where all has come to rest without the edit, and with it."""

    model_config = example({"pool": "vision", "before": PlanPoolRow.example(), "after": PlanPoolRow.example()})

    pool: str
    before: PlanPoolRow
    after: PlanPoolRow


class PlanUnseen(Shown):
    """Work that you do not see."""

    model_config = example({"gangs": 2, "gpus": 16})

    gangs: int
    gpus: int


class Plan(Shown):
    """What an edit of the state at *revision* would do: the difference to what happens without it.  Nothing is changed.

    *changes*: as apply tells them.  *nodes*: those that it takes out of use.  *starts*: runs, and would wait otherwise; *waits*: the
    other way round.  *spared*: preempted only without the edit.  *moves*: goes on with some pods on other nodes.  *loses*: stops for
    another cause than preemption.  *cancels*: had not started and is over.  *stays*: goes on to its end on nodes that
    are drained.  *never*: can never run any more.  *pools*: those in which
    anything differs.  *others*: by list, what is left out of it.
    *verdict*: whether a submission would start or wait, and for what; null for any other edit, and if that is not known.
    *rests* false: it is not all; the budget of *cycles*, or of what may be looked at, had ended.
    """

    model_config = example(
        {
            "revision": 18342,
            "rests": True,
            "cycles": 3,
            "changes": [],
            "nodes": [],
            "starts": [PlanStart.example()],
            "waits": [],
            "preempted": [],
            "spared": [],
            "moves": [],
            "loses": [],
            "cancels": [],
            "stays": [],
            "exposed": [PlanExposed.example()],
            "never": [],
            "drains": [],
            "pools": [PlanPool.example()],
            "others": {},
            "verdict": None,
        }
    )

    revision: int
    rests: bool
    cycles: int
    changes: list[ChangeAnswer]
    nodes: list[str]
    starts: list[PlanStart]
    waits: list[PlanStart]
    preempted: list[PlanPreempted]
    spared: list[PlanPreempted]
    moves: list[PlanGang]
    loses: list[PlanLoss]
    cancels: list[PlanGang]
    stays: list[PlanGang]
    exposed: list[PlanExposed]
    never: list[PlanNever]
    drains: list[PlanDrain]
    pools: list[PlanPool]
    others: dict[str, PlanUnseen]  # not an enum of names: generators of clients do not know those
    verdict: WorkflowDryRun | None
