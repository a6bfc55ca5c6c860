"""Counts usage again from the kept log, and compares it with what is stored (rule U4)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from runrig.domain.errors import NotFound
from runrig.domain.gangs import GangState
from runrig.domain.plan import Release
from runrig.domain.records import Event
from runrig.domain.usage import DAY_S, HOUR_S, KEEP_DAYS_S, KEEP_HOURS_S, MICROSECONDS, Folded, Hour, Key, Sums, totals
from runrig.engine.usage.fold import Fold
from runrig.ports.store import Store
from runrig.ports.usage import Position, UsageStore
from runrig.service.usage import beginning
from runrig.service.usage.follower import VERSION

EVENTS_AT_ONCE = 2_000
HOUR, DAY = 1, 24


@dataclass(frozen=True, slots=True)
class Difference:
    """A sum of the hour or day that begins at *begin*, in GPU × microseconds. *hours*: 1 or 24."""

    hours: int
    begin: int
    key: Key
    stored: int
    counted: int


@dataclass(slots=True)
class Recount:
    """*begin*, *end*: the hours that were compared, in seconds since the epoch; none if both are equal.

    *wrong*: each hour and day with a difference, by its length in hours, as the log has it. *position*: to store with them.
    """

    position: Position
    begin: int
    end: int
    compared: Counter[int] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    wrong: list[tuple[int, Hour]] = field(default_factory=list)

    def compare(self, hours: int, begin: int, counted: Sums, stored: Sums) -> None:
        keys = sorted(key for key in counted.keys() | stored.keys() if counted.get(key, 0) != stored.get(key, 0))
        if keys:
            self.differences += [Difference(hours, begin, key, stored.get(key, 0), counted.get(key, 0)) for key in keys]
            self.wrong.append((hours, Hour(begin, counted)))


def recount(store: Store, since: float | None) -> Recount:
    """Compares all stored hours and days from the day of *since* on, as far as the log reaches back. O(log); keeps a day in memory.

    Raises NotFound if no usage is stored.
    """
    position, base = store.usage.position(), beginning.first(store)
    if position is None or base is None:
        raise NotFound("no usage is stored yet. Start the server first")
    return _Counting(store, position, base, since).run()


class _Counting:
    def __init__(self, store: Store, position: Position, base: Folded, since: float | None) -> None:
        self._store, self._position, self._base = store, position, base
        at, end = position.folded.at // MICROSECONDS, _floor(position.folded.at // MICROSECONDS, HOUR_S)
        alike = position.since == base.at
        """Both begin with the same event, so the first day is alike, although not whole."""
        known = _floor(base.at // MICROSECONDS, DAY_S) if alike else _next_hour(max(base.at, position.since))
        wanted = 0 if since is None else _floor(int(since), DAY_S)
        self._kept = {
            length: _floor(at, DAY_S) - keep + DAY_S for length, keep in ((HOUR, KEEP_HOURS_S), (DAY, KEEP_DAYS_S))
        }
        self._found = Recount(position, min(end, max(known, wanted)), end)
        self._next = self._found.begin
        self._day: Counter[Key] = Counter()
        # Why these stop is not in the checkpoint, so what they lose cannot be compared.
        gangs = base.cluster.gangs if not alike else ()
        self._stopping = {row.gang.id for row in gangs if row.state is GangState.STOPPING}

    def run(self) -> Recount:
        fold, found, last = Fold(self._base), self._found, self._position.folded.revision
        while events := self._store.usage.steps(fold.revision, EVENTS_AT_ONCE):
            part = [event for event in events if event.revision <= last]
            self._skip_lost(part)
            for hour in fold.apply(part, beginning.submitters(self._store, part)):
                self._close(hour)
            if len(part) < len(events):
                break
        self._close_until(found.end)
        if found.begin < found.end and fold.revision == last:
            self._compare_open(fold.folded())
        return found

    def _compare_open(self, folded: Folded) -> None:
        """The hour that is not closed yet: its sums are stored with the position, and continued from there."""
        found, before = self._found, self._position.folded.open
        differences = len(found.differences)
        found.compare(HOUR, found.end, folded.open, before)
        if len(found.differences) > differences:
            found.wrong.pop()
            found.position = replace(self._position, folded=folded, version=VERSION)

    def _skip_lost(self, events: Sequence[Event]) -> None:
        for event in events if self._stopping else ():
            if isinstance(event.action, Release) and event.action.gang in self._stopping:
                self._stopping.discard(event.action.gang)
                begin = min(self._found.end, _next_hour(int(event.time * MICROSECONDS)))
                self._found.begin = max(self._found.begin, begin)
                self._next = max(self._next, begin)

    def _close(self, hour: Hour) -> None:
        self._close_until(hour.begin)
        if hour.begin == self._next:
            self._compare_hour(hour.sums)

    def _close_until(self, end: int) -> None:
        while self._next < end:
            self._compare_hour({})

    def _compare_hour(self, sums: Sums) -> None:
        usage, begin = self._store.usage, self._next
        self._compare(usage, HOUR, begin, sums)
        self._day.update(sums)
        self._next += HOUR_S
        if self._next % DAY_S == 0:
            day = self._next - DAY_S
            if day >= self._found.begin:
                self._compare(usage, DAY, day, dict(self._day))
            self._day = Counter()

    def _compare(self, usage: UsageStore, hours: int, begin: int, sums: Sums) -> None:
        if begin >= self._kept[hours]:
            self._found.compared[hours] += 1
            self._found.compare(hours, begin, {**sums, **totals(sums)}, usage.stored(hours, begin))


def _floor(seconds: int, length: int) -> int:
    return seconds - seconds % length


def _next_hour(at: int) -> int:
    """When the first whole hour begins at or after *at*, in microseconds."""
    return -_floor(-at // MICROSECONDS, HOUR_S)
