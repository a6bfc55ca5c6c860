"""Usage: who held, waited for, borrowed, lent and lost how many GPUs."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.value import Shown, at, shown_as


@dataclass(frozen=True, slots=True)
class UsageRow(Shown):
    """The usage in one bucket of time, in GPU-seconds. *time*: when the bucket begins.

    *pool*, *flavor*, *priority*, *user*: null unless grouped by it. *flavor* is `any` for waiting pods that can use several.
    *others*: everything that you may not see, as one amount. *subtree*: the pool together with its subpools, which have rows of their
    own; the total leaves it out. Loans between them are netted in its *drawn*, *borrowed* and *lent*, which are null for time before
    runrig counted them. *held*: from start to release. *waited*: requested by gangs in the queue.
    *lost_preempted*, *lost_other*: held by attempts that were preempted, or ended by a drain, a lost node or the scheduler of the
    cluster.

    *quota*, *guaranteed*, *drawn* (held by guaranteed work on what cohorts share), *borrowed*, *lent*: of the pools, without their
    subpools; null if grouped or filtered by user or priority. *capacity*, *free*, *down*, *idle_asked* (free while gangs in the queue
    could have used it): of the flavor; null unless grouped by flavor alone.
    """

    time: datetime
    pool: str | None
    flavor: str | None
    priority: str | None
    user: str | None
    others: bool
    subtree: bool
    held: float
    waited: float
    lost_preempted: float
    lost_other: float
    quota: float | None
    guaranteed: float | None
    drawn: float | None
    borrowed: float | None
    lent: float | None
    capacity: float | None
    free: float | None
    down: float | None
    idle_asked: float | None


_BEGIN = at(1790244000.0)
_NUMBERS = (18240.0, 10560.0, 11040.0, 0.0, 14400.0, 9120.0, 0.0, 9120.0, 0.0, None, None, None, None)
_ROW = shown_as(UsageRow(_BEGIN, "speech", "h100", None, None, False, False, *_NUMBERS))


@dataclass(frozen=True, slots=True)
class Usage(Shown):
    """*since*, *until*: whole hours. *every*: the length of the buckets, null: one bucket. *by*: what the rows are grouped by.

    *complete_since*: nothing is known of the time before; null if nothing is known yet. *folded_until*: usage is complete up to then.
    *rows*: by time, then by the names they are grouped by. *total*: the sum of all rows but those of subtrees.
    """

    since: datetime
    until: datetime
    every: str | None
    by: tuple[str, ...]
    complete_since: datetime | None
    folded_until: datetime | None
    rows: tuple[UsageRow, ...]
    total: UsageRow


shown_as(
    Usage(
        _BEGIN,
        at(1790251200.0),
        None,
        ("pool", "flavor"),
        at(1785542400.0),
        at(1790251198.12),
        (_ROW,),
        UsageRow(_BEGIN, None, None, None, None, False, False, *_NUMBERS),
    )
)
