"""Storage of usage: sums per hour and day, and how far the log is folded into them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runrig.domain.records import Event
from runrig.domain.usage import Folded, Hour, Sums


@dataclass(frozen=True, slots=True)
class Position:
    """*since*: when usage begins, in microseconds; before that nothing is known. *version*: of the rules it was counted by."""

    folded: Folded
    since: int
    version: int


@dataclass(frozen=True, slots=True)
class SumsQuery:
    """Which sums of *table*, added up by *by*, which can be empty. Empty filters do not filter.

    *begin*, *end*: seconds since the epoch, whole hours. *pools*: with their subpools. *buckets*: add up per hour, if 3600, or
    per day, if 86400; None: everything together.
    """

    table: str
    begin: int
    end: int
    by: tuple[str, ...] = ()
    buckets: int | None = None
    pools: tuple[str, ...] = ()
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column → its values, such as users."""


Summed = tuple[int, tuple[str, ...], tuple[int, ...]]
"""(begin of the bucket, the values of *by*, the sums of the table's columns)."""


class UsageStore(Protocol):
    def position(self) -> Position | None:
        """Returns None before the first `save`."""

    def save(self, position: Position, hours: Iterable[Hour], *, keep_hours: int, keep_days: int) -> None:
        """Writes the closed *hours* and the *position*, in one transaction. Hours and days that begin before *keep_hours* and
        *keep_days*, in seconds since the epoch, are deleted. Writing the same twice has no further effect.
        """

    def stored(self, hours: int, begin: int) -> Sums:
        """Returns the sums of the hour or day (*hours*: 1 or 24) that begins at *begin*."""

    def replace(self, position: Position, sums: Iterable[tuple[int, Hour]]) -> None:
        """Replaces the *sums* of hours and days, each with its length in hours, and the *position*, in one transaction."""

    def log_is_whole(self) -> bool:
        """Whether nothing was ever deleted from the log, so that usage can begin with its first event."""

    def steps(self, after: int, limit: int) -> tuple[Event, ...]:
        """Returns the first declarations and decisions after revision *after*, at least *limit* if there are as many. Revisions
        are never split.
        """

    def submitters(self, workflows: Collection[str]) -> Mapping[str, str]:
        """Returns who submitted these *workflows*."""

    def unfolded_since(self) -> float | None:
        """Returns the time of the first event after the stored position, or None."""

    def sums(self, query: SumsQuery) -> Sequence[Summed]:
        """Returns the sums of closed hours, in any order."""
