"""Budgets: the GPU-hours that a pool or a user may hold in a calendar month, in UTC (rule W7).

Amounts are whole GPU × microseconds, as in `domain.usage`, so a budget and `runrig usage` count the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from runrig.domain.pools import BudgetReached
from runrig.domain.quantities import counted, listed
from runrig.domain.value import at as moment
from runrig.domain.value import utc

MICROSECONDS = 1_000_000
HOUR = 3600 * MICROSECONDS
"""A GPU-hour."""


class Owner:
    """Whose budget it is."""

    POOL = "pool"
    USER = "user"


Scope = tuple[str, str]
"""(`Owner`, name): a top-level pool with its subpools, or a user in all pools."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The spent part of a budget. *month*: the start of its month, in seconds since the epoch. *held*: what was held from then, or
    from the start of the month of *since*, until *since*. *stops*: the effect of a reached budget now; None: nothing.
    """

    of: str
    name: str
    month: float
    held: int
    since: float
    stops: BudgetReached | None = None

    @property
    def scope(self) -> Scope:
        return self.of, self.name

    def until(self, at: float, gpus: int) -> int:
        """What is held in the month of *at* until then, if *gpus* have been held since *since*."""
        begin = month_of(at)
        if self.since < begin:
            return gpus * (_whole(at) - _whole(begin))
        return self.held + gpus * (_whole(at) - _whole(self.since))

    def reached_at(self, budget: int, gpus: int) -> float | None:
        """When *budget*, in hours, is reached in the month of *since* if *gpus* are held; None: it is not."""
        left = budget * HOUR - self.held
        at = _whole(self.since) + (-(-left // gpus) if left > 0 and gpus else 0)
        return None if left > 0 and not gpus else at / MICROSECONDS


@dataclass(frozen=True, slots=True)
class HeldBefore:
    """What was held from the start of the month of *until* until then, as usage knows it. *amounts*: zeros may be missing."""

    until: float
    amounts: Mapping[Scope, int]


def _whole(time: float) -> int:
    return round(time * MICROSECONDS)


def month_of(at: float) -> float:
    """The start of the month that contains *at*."""
    return datetime.fromtimestamp(at, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def next_month(begin: float) -> float:
    """The start of the month after the one that starts at *begin*. A budget renews then."""
    return month_of((datetime.fromtimestamp(begin, UTC) + timedelta(days=31)).timestamp())


def month_in_words(begin: float) -> str:
    """``2026-11``."""
    return f"{datetime.fromtimestamp(begin, UTC):%Y-%m}"


def hours(amount: int) -> float:
    """GPU-hours with one decimal, rounded down, so that what is not reached does not look so."""
    return amount * 10 // HOUR / 10


def hours_in_words(amount: int) -> str:
    """``1,000.5 GPU-hours``."""
    return f"{hours(amount):,.1f} GPU-hours"


def left_in_hours(budget: int, held: int) -> float:
    """What is left of *budget*, in GPU-hours with one decimal, rounded up; 0 only if it is reached."""
    return max(0, -((held - budget * HOUR) * 10 // HOUR)) / 10


def preview_in_words(
    budget: int, held: int | None, renews: float, stops: BudgetReached | None, waits: Sequence[str], running: int
) -> str:
    """The effect that a budget would have now. *waits*: workflows that it would keep waiting. *running*: how many continue."""
    end = utc(moment(renews))
    if held is None:
        return f"the usage of this month is not counted yet; the budget renews on {end}"
    used = f"{hours(held):,.1f} of {counted(budget, 'GPU-hour')} used this month"
    if stops is None:
        return f"{used}, {left_in_hours(budget, held):,.1f} left; it renews on {end}"
    most = 3
    names = [*waits[:most], *([f"{len(waits) - most} more"] if len(waits) > most else [])]
    effects = [f"{listed(names)} would wait"] if waits else []
    effects += [f"{counted(running, 'running workflow')} would continue"] if running else []
    what = "only LOW work starts" if stops is BudgetReached.BORROW else "nothing new starts"
    return "; ".join((f"{used}, so it would be reached: {what} until {end}", *effects))


def reached_in_words(pool: str, user: str, budget: int, renews: float | None, *, low: bool) -> str:
    """*pool* empty: a budget of *user*. The amount held is not shown, because running work still adds to it."""
    whose = f"the budget of {f'pool {pool}' if pool else user}"
    but = "; until then only LOW work starts" if low else ""
    until = "" if renews is None else f"; it renews on {utc(moment(renews))}{but}"
    return f"{whose} is reached: none of its {counted(budget, 'GPU-hour')} {'is' if budget == 1 else 'are'} left this month{until}"
