"""The GPUs of a pool over time, for a picture of it: from the sums per hour and day, and the last hour by minute."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from runrig.domain.gangs import Priority
from runrig.domain.usage import COLUMNS, HOUR_S, MICROSECONDS, MINUTE_S, QUOTA, TREE, WORK
from runrig.ports.usage import Summed, SumsQuery, UsageStore
from runrig.service.usage.follower import Follower
from runrig.service.usage.summed import in_memory, summed

Parts = dict[str, int]
"""GPU × microseconds by column; "low": the part of "held" that is LOW work. Columns of `TREE` begin with its name."""


@dataclass(frozen=True, slots=True)
class PoolPoint:
    """Average GPUs from *begin*, for *length_s* seconds. *firm*: held by HIGH and NORMAL work within the quota, or what cohorts
    share. *low*: by LOW work within the quota. *borrowed*: held above it. *lent*: idle quota that others held.
    """

    begin: float
    length_s: float
    quota: float
    firm: float
    low: float
    borrowed: float
    lent: float
    waited: float

    @property
    def held(self) -> float:
        return self.firm + self.low + self.borrowed

    @property
    def idle(self) -> float:
        """Unused quota."""
        return max(0.0, self.quota - self.firm - self.low - self.lent)


@dataclass(frozen=True, slots=True)
class PoolOverTime:
    """*points*: in order, without gaps; nothing is known before the first. *even_until*: up to then, minutes are averages of an
    hour, because minutes are counted only while the server runs; None: they are exact.
    """

    begin: float
    end: float
    points: tuple[PoolPoint, ...]
    even_until: float | None = None


def over_time(store: UsageStore, follower: Follower, pool: str, span: tuple[int, int], step_s: int) -> PoolOverTime:
    """*span*: begin and end, in seconds. *step_s*: a minute, an hour or a day. Call with the lock of *follower*."""
    begin, end = span[0] - span[0] % step_s, span[1]
    known = follower.open_hours()
    if known is None:
        return PoolOverTime(begin, end, ())
    until, since = known[1] / MICROSECONDS, known[2] / MICROSECONDS
    length = max(step_s, HOUR_S)
    first, last = begin - begin % length, -(-end // HOUR_S) * HOUR_S
    sums = _parts(partial(summed, store, known[0]), pool, (first, last), length)
    if step_s >= HOUR_S:
        return PoolOverTime(begin, end, tuple(_points(sums, range(begin, end, step_s), step_s, since, until)))
    counted, minutes = follower.minutes()
    exact = _parts(partial(in_memory, minutes), pool, (first, last), MINUTE_S)
    even = _spread(sums, exact, (since, counted, until))
    steps = range(begin, end, step_s)
    points = [
        *_points(even, (at for at in steps if at < counted), MINUTE_S, since, until),
        *_points(exact, (at for at in steps if at >= counted), MINUTE_S, since, until),
    ]
    return PoolOverTime(begin, end, tuple(points), counted if counted > max(begin, since) else None)


def _parts(
    sums: Callable[[SumsQuery], Iterable[Summed]], pool: str, span: tuple[int, int], length: int
) -> dict[int, Parts]:
    """The sums of *pool* and its subpools in buckets of *length* seconds, by their begin."""
    found: dict[int, Parts] = {}
    for table, by in ((WORK, ("priority",)), (QUOTA, ()), (TREE, ())):
        for start, names, amounts in sums(SumsQuery(table, *span, by, length, (pool,))):
            of = dict(zip(COLUMNS[table], amounts, strict=True))
            if names == (Priority.LOW.value,):
                of["low"] = of["held"]
            parts = found.setdefault(start, {})
            for column, amount in of.items():
                name = f"{TREE} {column}" if table == TREE else column
                parts[name] = parts.get(name, 0) + amount
    return found


def _spread(
    hours: Mapping[int, Parts], exact: Mapping[int, Parts], known: tuple[float, int, float]
) -> dict[int, Parts]:
    """Returns the minutes of *hours* before *counted*: what their *exact* minutes leave is spread evenly.

    *known*: since when usage is known, *counted*: since when minutes are, and until when.
    """
    since, counted, until = known
    even: dict[int, Parts] = {}
    for hour, parts in hours.items():
        rest = dict(parts)
        for at, of in exact.items():
            if hour <= at < hour + HOUR_S:
                rest = {column: amount - of.get(column, 0) for column, amount in rest.items()}
        first, last = max(hour, since), min(hour + HOUR_S, counted, until)
        for at in range(hour, hour + HOUR_S, MINUTE_S):
            covered = min(at + MINUTE_S, last) - max(at, first)
            if covered > 0:
                even[at] = {column: round(amount * covered / (last - first)) for column, amount in rest.items()}
    return even


def _points(
    sums: Mapping[int, Parts], steps: Iterable[int], step_s: int, since: float, until: float
) -> Iterator[PoolPoint]:
    for begin in steps:
        first, last = max(begin, since), min(begin + step_s, until)
        if last > first:
            yield _point(sums.get(begin, {}), first, last - first)


def _point(parts: Parts, begin: float, length_s: float) -> PoolPoint:
    if parts.get(f"{TREE} quota", -1) == parts.get("quota"):  # Otherwise a part of it is older than these sums.
        parts = parts | {column: parts.get(f"{TREE} {column}", 0) for column in ("borrowed", "lent")}
    gpus = {column: amount / MICROSECONDS / length_s for column, amount in parts.items()}
    held, borrowed = gpus.get("held", 0.0), gpus.get("borrowed", 0.0)
    low = max(0.0, gpus.get("low", 0.0) - borrowed)
    quota, lent, waited = gpus.get("quota", 0.0), gpus.get("lent", 0.0), gpus.get("waited", 0.0)
    return PoolPoint(begin, length_s, quota, max(0.0, held - borrowed - low), low, borrowed, lent, waited)
