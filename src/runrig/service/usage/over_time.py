"""The GPUs of a pool over time, for a picture of it: from the sums per hour and day, and the last hour by minute."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runrig.domain.gangs import Priority
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.usage import COLUMNS, HOUR_S, KEYS, MICROSECONDS, MINUTE_S, QUOTA, TREE, WORK, Hour, Key
from runrig.ports.usage import SumsQuery, UsageStore
from runrig.service.usage.follower import Follower

DAY_S = 24 * HOUR_S
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
    hours, until, since = known[0], known[1] / MICROSECONDS, known[2] / MICROSECONDS
    length = max(step_s, HOUR_S)
    first = begin - begin % length
    sums = _stored(store, pool, first, end, length)
    for hour in hours:
        if hour.begin >= first:
            _add(sums.setdefault(hour.begin - hour.begin % length, {}), hour, pool)
    if step_s >= HOUR_S:
        return PoolOverTime(begin, end, tuple(_points(sums, range(begin, end, step_s), step_s, since, until)))
    counted, minutes = follower.minutes()
    even, exact = _by_minute(sums, pool, minutes, (since, counted, until))
    steps = range(begin, end, step_s)
    points = [
        *_points(even, (at for at in steps if at < counted), MINUTE_S, since, until),
        *_points(exact, (at for at in steps if at >= counted), MINUTE_S, since, until),
    ]
    return PoolOverTime(begin, end, tuple(points), counted if counted > max(begin, since) else None)


def _stored(store: UsageStore, pool: str, begin: int, end: int, length: int) -> dict[int, Parts]:
    found: dict[int, Parts] = {}
    last = -(-end // HOUR_S) * HOUR_S
    for start, (priority,), sums in store.sums(SumsQuery(WORK, begin, last, ("priority",), length, (pool,))):
        of = dict(zip(COLUMNS[WORK], sums, strict=True))
        _put(found.setdefault(start, {}), priority, of)
    for start, _, sums in store.sums(SumsQuery(QUOTA, begin, last, (), length, (pool,))):
        found.setdefault(start, {}).update(zip(COLUMNS[QUOTA], sums, strict=True))
    for start, _, sums in store.sums(SumsQuery(TREE, begin, last, (), length, (pool,))):
        names = (f"{TREE} {column}" for column in COLUMNS[TREE])
        found.setdefault(start, {}).update(zip(names, sums, strict=True))
    return found


def _put(parts: Parts, priority: str, of: Mapping[str, int]) -> None:
    for column, amount in of.items():
        parts[column] = parts.get(column, 0) + amount
    if priority == Priority.LOW.value:
        parts["low"] = parts.get("low", 0) + of.get("held", 0)


def _add(parts: Parts, hour: Hour, pool: str) -> None:
    for key, amount in hour.sums.items():
        if _is_of(key, pool):
            column = f"{TREE} {key[-1]}" if key[0] == TREE else key[-1]
            _put(parts, key[1 + KEYS[WORK].index("priority")] if key[0] == WORK else "", {column: amount})


def _is_of(key: Key, pool: str) -> bool:
    return key[0] in (WORK, QUOTA, TREE) and (key[1] == pool or key[1].startswith(f"{pool}{SUBPOOL_DELIMITER}"))


def _by_minute(
    hours: Mapping[int, Parts], pool: str, minutes: Iterable[Hour], known: tuple[float, int, float]
) -> tuple[dict[int, Parts], dict[int, Parts]]:
    """Returns the minutes before *counted*, and those after it. The rest of an hour is spread evenly.

    *known*: since when usage is known, *counted*: since when minutes are, and until when.
    """
    since, counted, until = known
    exact: dict[int, Parts] = {}
    for minute in minutes:
        _add(exact.setdefault(minute.begin, {}), minute, pool)
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
    return even, exact


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
