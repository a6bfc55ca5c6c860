"""Limits of users in pools and over all pools, with what counts towards them (rules W6, W7)."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.limits import LimitValues
from runrig.domain.pools import BudgetReached
from runrig.domain.value import Page, Shown, Word, at, example, shown_as


class LimitKind(Word):
    """GPUS: those that a user uses at the same time. WAITING: PENDING workflows. GPUS_PER_WORKFLOW: those of one workflow. BUDGET:
    GPU-hours that a user, or a pool as a whole, holds in a calendar month.
    """

    GPUS = "gpus"
    WAITING = "waiting"
    GPUS_PER_WORKFLOW = "gpus_per_workflow"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Limit(Shown):
    """A limit. *user* null: it applies to each user of the pool, a budget to all of them together. *pool* null: over all pools.

    *used*: what counts towards it now; null if it applies to each user, or to single workflows, or if a new budget is not counted
    yet. *renews*: when a budget begins anew; null for other limits.
    """

    user: str | None
    pool: str | None
    limit: LimitKind
    most: int
    used: int | None
    renews: datetime | None = None


shown_as(Limit("cy", "vision", LimitKind.GPUS, 8, 6))


@dataclass(frozen=True, slots=True)
class BudgetPreview(Shown):
    """The effect that a budget of *most* GPU-hours would have now.

    *used*, *left*: in this month; null: usage is not counted yet. *renews*: when the next month begins. *stops*: what is stopped until
    then, as in `budget_reached`; null: nothing, as it is not reached. *waits*: workflows that it would keep waiting. *running*: how many
    continue. *sentence*: the same in words.
    """

    most: int
    used: float | None
    left: float | None
    renews: datetime
    stops: BudgetReached | None
    waits: tuple[str, ...]
    running: int
    sentence: str


shown_as(
    BudgetPreview(
        200,
        212.5,
        0.0,
        at(1796083200.0),
        BudgetReached.STOP,
        ("train-7",),
        1,
        "212.5 of 200 GPU-hours used this month, so it would be reached: nothing new starts until 2026-12-01 00:00:00 UTC; train-7 would "
        "wait; 1 running workflow would continue",
    )
)


@dataclass(frozen=True, slots=True)
class LimitPage(Page[Limit]):
    """Limits by user, pool and kind; those of each user first."""


@dataclass(frozen=True, slots=True)
class LimitsChange(Shown):
    """A change of the limits of a user, or of each user of a pool.

    *above*: what is above its new limit now. Nothing of it is stopped. *budget*: of a dry run, the effect of a changed budget; null if
    it does not change, or there is none any more.
    """

    user: str | None
    pool: str | None
    before: LimitValues
    after: LimitValues
    above: tuple[Limit, ...]
    budget: BudgetPreview | None = None


shown_as(LimitsChange("cy", None, LimitValues(), example(LimitValues), (Limit("cy", None, LimitKind.GPUS, 8, 12),)))
