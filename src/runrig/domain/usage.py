"""Usage: sums over time of what gangs held and waited for, by pool, flavor, priority and user.

All sums are whole numbers of GPU × microseconds, so they agree with the event log to the last digit.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from runrig.domain.records import Loaded

HOUR_S = 3600
DAY_S = 24 * HOUR_S
MINUTE_S = 60
KEEP_HOURS_S = 90 * DAY_S
KEEP_DAYS_S = 2 * 366 * DAY_S
"""How long the sums of hours and days are kept, in seconds before the current day."""
MICROSECONDS = 1_000_000
ANY = "any"
"""The flavor of waiting pods that can use several."""

UNKNOWN = ""
"""The user of work whose workflow was deleted before usage was known."""

WORK = "work"
QUOTA = "quota"
TREE = "tree"
"""As `QUOTA`, of pools that have subpools, together with these. Loans between them are netted, so it is not their sum."""
FLAVOR = "flavor"
TOTALS: Mapping[str, str] = {WORK: "work_total", QUOTA: "quota_total"}
"""Table → the table with its sums by flavor alone."""

_OF_WORK = ("held", "waited", "lost_preempted", "lost_other")
_OF_QUOTA = ("quota", "drawn", "borrowed", "lent")

COLUMNS: Mapping[str, tuple[str, ...]] = {
    WORK: _OF_WORK,
    QUOTA: _OF_QUOTA,
    TREE: _OF_QUOTA,
    FLAVOR: ("capacity", "down", "free", "idle_asked"),
    TOTALS[WORK]: _OF_WORK,
    TOTALS[QUOTA]: _OF_QUOTA,
}
"""The sums of each table."""

KEYS: Mapping[str, tuple[str, ...]] = {
    WORK: ("pool", "flavor", "priority", "user"),
    QUOTA: ("pool", "flavor"),
    TREE: ("pool", "flavor"),
    FLAVOR: ("flavor",),
    TOTALS[WORK]: ("flavor",),
    TOTALS[QUOTA]: ("flavor",),
}
"""The names that identify a sum in each table."""

Key = tuple[str, ...]
"""(table, one value for each of its `KEYS`, column)."""

Sums = Mapping[Key, int]
"""GPU × microseconds; keys with 0 are missing."""


def totals(sums: Sums) -> Sums:
    """The sums of `TOTALS`."""
    found: Counter[Key] = Counter()
    for key, amount in sums.items():
        if key[0] in TOTALS:
            found[TOTALS[key[0]], key[1 + KEYS[key[0]].index("flavor")], key[-1]] += amount
    return found


def microseconds(time: float) -> int:
    return round(time * MICROSECONDS)


@dataclass(frozen=True, slots=True)
class Hour:
    """The sums of the hour that begins at *begin*, in seconds since the epoch."""

    begin: int
    sums: Sums


@dataclass(frozen=True, slots=True)
class Folded:
    """The log up to *cluster.revision*, folded: enough to continue from there.

    *cluster*: declarations and gangs. *at*: the time of the last event, in microseconds. *users*: by gang. *causes*: why a
    stopping gang loses its time, by gang; "" if nothing is lost. *open*: the sums of the hour that contains *at*.
    """

    cluster: Loaded
    at: int
    users: Mapping[str, str]
    causes: Mapping[str, str]
    open: Sums

    @property
    def revision(self) -> int:
        return self.cluster.revision


def nothing_folded(at: int) -> Folded:
    """Before the first event, which is at *at* or later."""
    return Folded(Loaded(0, (), (), (), (), (), (), (), (), {}, {}), at, {}, {}, {})
