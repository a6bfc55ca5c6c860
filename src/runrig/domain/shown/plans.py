"""What an edit would do: work that it starts, stops or keeps waiting, and pools in which anything differs."""

from dataclasses import dataclass, field
from datetime import datetime

from runrig.domain.gangs import Law
from runrig.domain.pools import PoolState
from runrig.domain.shown.declared import DeclaredChange
from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.domain.shown.topology import Others
from runrig.domain.value import Shown, at, example, shown_as


@dataclass(frozen=True, slots=True)
class PlanGang(Shown):
    """*gpus*: what it holds; of one that waits, what it asks for."""

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
    """*by*: the gang that starts instead.  *law*: PRIORITY (R1) or RECLAIM (R2).  *again*: it has another place at once."""

    by: str
    law: Law
    again: bool


shown_as(PlanPreempted(*_WHO, by="moe-70b-3/train", law=Law.RECLAIM, again=False))


@dataclass(frozen=True, slots=True)
class PlanLoss(PlanGang):
    """*then*: `queued`, `elsewhere`, or the status in which its group is over."""

    cause: str
    then: str


shown_as(PlanLoss(*_WHO, cause="FAILED_BACKEND_ERROR", then="queued"))


@dataclass(frozen=True, slots=True)
class PlanNever(PlanGang):
    why: str


shown_as(PlanNever(*_WHO, why="it asks for 16 of default/gpu in one gang, and ..."))


@dataclass(frozen=True, slots=True)
class PlanExposed(Shown):
    """A pool that holds more than its nominal, so that its LOW work is no longer safe (law R2).  *gangs*: who would go first in front."""

    pool: str
    resource: str
    held: int
    nominal: int
    gangs: tuple[PlanGang, ...]


shown_as(PlanExposed("vision", "default/gpu", 112, 96, (example(PlanGang),)))


@dataclass(frozen=True, slots=True)
class PlanDrain(Shown):
    """*until*: when the last of it has to end; null: something there has no exec_timeout, or has not started."""

    pool: str
    workflows: int
    gpus: int
    until: datetime | None


shown_as(PlanDrain("old", 3, 24, at(1769881200.0)))


@dataclass(frozen=True, slots=True)
class PlanPoolRow(Shown):
    """GPUs.  *state* null: there is no such pool.  *waiting*: gangs in its queue."""

    state: PoolState | None = None
    quota: int = 0
    used: int = 0
    total: int = 0
    available: int = 0
    waiting: int = 0


shown_as(PlanPoolRow(PoolState.ACTIVE, quota=96, used=72, total=112, available=24, waiting=14))


@dataclass(frozen=True, slots=True)
class PlanPool(Shown):
    """A pool where all has come to rest without the edit, and with it."""

    pool: str
    before: PlanPoolRow
    after: PlanPoolRow


shown_as(PlanPool("vision", example(PlanPoolRow), example(PlanPoolRow)))


class PlanUnseen(Others):
    """Work that you do not see."""


shown_as(PlanUnseen(2, 16))


@dataclass(frozen=True, slots=True)
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
    others: dict[str, PlanUnseen] = field(
        default_factory=dict
    )  # not an enum of names: generators of clients do not know those
    verdict: WorkflowDryRun | None = None


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
