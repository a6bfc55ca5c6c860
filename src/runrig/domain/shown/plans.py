"""The effects of an edit: gangs that it starts, stops or keeps waiting, and pools that it affects."""

from dataclasses import dataclass, field
from datetime import datetime

from runrig.domain.gangs import Law
from runrig.domain.pools import PoolState
from runrig.domain.shown.declared import DeclaredChange
from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.domain.shown.limits import BudgetPreview
from runrig.domain.shown.topology import GangCount
from runrig.domain.value import Shown, at, example, shown_as


@dataclass(frozen=True, slots=True)
class PlanGang(Shown):
    """*gpus*: the GPUs that the gang uses or, if it is waiting, requests."""

    gang: str
    pool: str
    priority: str
    gpus: int


_WHO = ("parse-71/train", "nlp", "LOW", 16)

shown_as(PlanGang(*_WHO))


@dataclass(frozen=True, slots=True)
class PlanStart(PlanGang):
    nodes: tuple[str, ...]


shown_as(PlanStart(*_WHO, nodes=("n1411", "n1412")))


@dataclass(frozen=True, slots=True)
class PlanPreempted(PlanGang):
    """*by*: the gang that starts instead. *law*: PRIORITY (R1) or RECLAIM (R2). *again*: it restarts immediately on
    other nodes.
    """

    by: str
    law: Law
    again: bool


shown_as(PlanPreempted(*_WHO, by="moe-70b-3/train", law=Law.RECLAIM, again=False))


@dataclass(frozen=True, slots=True)
class PlanLoss(PlanGang):
    """*then*: `queued`, `elsewhere`, or the final status of its group."""

    cause: str
    then: str


shown_as(PlanLoss(*_WHO, cause="FAILED_BACKEND_ERROR", then="queued"))


@dataclass(frozen=True, slots=True)
class PlanNever(PlanGang):
    why: str


shown_as(PlanNever(*_WHO, why="can never start: needs 16 GPUs, but pool nlp can get at most 8 GPUs"))


@dataclass(frozen=True, slots=True)
class PlanExposed(Shown):
    """A pool that uses more than its nominal quota, so that its LOW work can be reclaimed. *gangs*: in the order of
    preemption.
    """

    pool: str
    resource: str
    held: int
    nominal: int
    gangs: tuple[PlanGang, ...]


shown_as(PlanExposed("vision", "default/gpu", 112, 96, (example(PlanGang),)))


@dataclass(frozen=True, slots=True)
class PlanDrain(Shown):
    """*until*: when its last workflow ends at the latest; null if one has no exec_timeout or has not started."""

    pool: str
    workflows: int
    gpus: int
    until: datetime | None


shown_as(PlanDrain("old", 3, 24, at(1769881200.0)))


@dataclass(frozen=True, slots=True)
class PlanPoolRow(Shown):
    """GPUs. *state* null: the pool does not exist. *waiting*: gangs in its queue."""

    state: PoolState | None = None
    quota: int = 0
    used: int = 0
    total: int = 0
    available: int = 0
    waiting: int = 0


shown_as(PlanPoolRow(PoolState.ACTIVE, quota=96, used=72, total=112, available=24, waiting=14))


@dataclass(frozen=True, slots=True)
class PlanPool(Shown):
    """A pool in a steady state, without the edit (*before*) and with it (*after*)."""

    pool: str
    before: PlanPoolRow
    after: PlanPoolRow


shown_as(PlanPool("vision", example(PlanPoolRow), example(PlanPoolRow)))


class PlanUnseen(GangCount):
    """Workflows that you cannot see."""


shown_as(PlanUnseen(2, 16))


@dataclass(frozen=True, slots=True)
class Plan(Shown):
    """The effects of an edit of the state at *revision*, compared with what happens without it. Nothing is changed.

    *changes*: as in the response to apply. *nodes*: taken out of service. *starts*: would wait without the edit.
    *waits*: would start without it.
    `spared`: would be preempted without it. *moves*: keeps running, with some pods on other nodes. *loses*: stops for
    another reason than preemption. *cancels*: cancelled before it started. *stays*: finishes on nodes that are drained.
    *never*: can never start. *exposed*: pools whose LOW work can be reclaimed. *pools*: pools that change. *others*: by
    list, the gangs that you cannot see.
    *verdict*: whether a submission would start or wait, and why; null for other edits, or if unknown.
    *budget*: of an edit of a pool that changes its budget, what this would do now.
    *rests* false: the plan is incomplete, because the limit of *cycles* or of the search was reached.
    """

    revision: int
    rests: bool
    cycles: int
    changes: tuple[DeclaredChange, ...] = ()
    nodes: tuple[str, ...] = ()
    starts: tuple[PlanStart, ...] = ()
    waits: tuple[PlanStart, ...] = ()
    preempted: tuple[PlanPreempted, ...] = ()
    spared: tuple[PlanPreempted, ...] = ()
    moves: tuple[PlanGang, ...] = ()
    loses: tuple[PlanLoss, ...] = ()
    cancels: tuple[PlanGang, ...] = ()
    stays: tuple[PlanGang, ...] = ()
    exposed: tuple[PlanExposed, ...] = ()
    never: tuple[PlanNever, ...] = ()
    drains: tuple[PlanDrain, ...] = ()
    pools: tuple[PlanPool, ...] = ()
    others: dict[str, PlanUnseen] = field(default_factory=dict)  # not an enum: client generators would reject new keys
    verdict: WorkflowDryRun | None = None
    budget: BudgetPreview | None = None


shown_as(
    Plan(
        revision=18342,
        rests=True,
        cycles=3,
        starts=(example(PlanStart),),
        exposed=(example(PlanExposed),),
        pools=(example(PlanPool),),
    )
)
