"""Usage as users ask for it: grouped, by time, and only with names that they may see."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from runrig.domain.access import Permission, allows
from runrig.domain.errors import InvalidInput
from runrig.domain.pools import top_level
from runrig.domain.shown.usage import Usage, UsageRow
from runrig.domain.usage import COLUMNS, DAY_S, FLAVOR, HOUR_S, KEYS, MICROSECONDS, QUOTA, TREE, WORK, Hour
from runrig.domain.value import at
from runrig.ports.clock import Clock
from runrig.ports.usage import Summed, SumsQuery, UsageStore
from runrig.service.queries.resource_queries import ResourceQueries
from runrig.service.queries.visibility import Visibility
from runrig.service.usage.follower import Follower
from runrig.service.usage.over_time import PoolOverTime, over_time
from runrig.service.usage.summed import summed

USUAL_S = 7 * DAY_S
MOST_ROWS = 20_000


class By(StrEnum):
    USER = "user"
    POOL = "pool"
    FLAVOR = "flavor"
    PRIORITY = "priority"


class Every(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """*since* None: a week before *until*. *until* None: now. *every* None: one bucket. Empty filters do not filter.

    *pools*: with their subpools. *tree*: with a row for each pool and its subpools together.
    """

    by: tuple[By, ...] = (By.POOL,)
    since: float | None = None
    until: float | None = None
    every: Every | None = None
    pools: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    flavors: tuple[str, ...] = ()
    tree: bool = False


Group = tuple[int, bool, tuple[str | None, ...]]
"""(begin of the bucket, whether it is what the user may not see, the values of *by*)."""

Found = dict[Group, dict[str, int]]
"""Column → sum, for each group."""


class UsageQueries:
    def __init__(self, store: UsageStore, clock: Clock, follower: Follower, queries: ResourceQueries) -> None:
        self._store = store
        self._clock = clock
        self._follower = follower
        self._queries = queries

    def usage(self, query: UsageQuery, visibility: Visibility) -> Usage:
        """Raises InvalidInput for an empty time, too many rows or a tree without pools, NotFound for pools that the user cannot see."""
        if query.tree and By.POOL not in query.by:
            raise InvalidInput.one("a tree adds up pools. Group by pool too", "tree")
        for pool in query.pools:
            self._queries.check_pool(pool, visibility)
        begin, end = _hours(query, self._clock.now())
        starts = _starts(begin, end, query.every)
        found, netted = Found(), Found()
        with self._follower.lock:
            known = self._follower.open_hours()
            for table in self._tables(query, visibility):
                ask = _Ask(table, query, visibility)
                for start, keys, sums in self._summed(ask, starts, end, () if known is None else known[0]):
                    if (group := ask.group(start, keys)) is not None:
                        of = netted if table == TREE else found
                        _add(of.setdefault(group, {}), zip(COLUMNS[table], sums, strict=True))
        trees = _with_subpools(query, found, netted) if query.tree else {}
        if (count := len(found) + len(trees)) > MOST_ROWS:
            raise InvalidInput.one(
                f"too many rows ({count:,}, maximum {MOST_ROWS:,}). Use a shorter time, fewer keys or longer steps",
                "by",
            )
        by, total = tuple(query.by), dict[str, int]()
        for sums_of in found.values():
            _add(total, sums_of.items())
        rows = [(group, subtree) for subtree, of in ((True, trees), (False, found)) for group in of]
        rows.sort(key=lambda row: (*row[0][:2], [value or "" for value in row[0][2]], not row[1]))
        return Usage(
            at(begin),
            at(end),
            None if query.every is None else query.every.value,
            tuple(each.value for each in by),
            None if known is None else at(known[2] / MICROSECONDS),
            None if known is None else at(known[1] / MICROSECONDS),
            tuple(_row(group, by, (trees if subtree else found)[group], subtree=subtree) for group, subtree in rows),
            _row((begin, False, (None,) * len(by)), by, total),
        )

    def over_time(self, pool: str, begin: float, end: float, step_s: int, visibility: Visibility) -> PoolOverTime:
        """The GPUs of *pool* and its subpools from *begin* to *end*, in steps of a minute, an hour or a day. Raises NotFound."""
        self._queries.check_pool(pool, visibility)
        with self._follower.lock:
            return over_time(self._store, self._follower, pool, (int(begin), int(end)), step_s)

    def _tables(self, query: UsageQuery, visibility: Visibility) -> Iterator[str]:
        yield WORK
        if not query.users and not {By.USER, By.PRIORITY}.intersection(query.by):
            yield QUOTA
            if query.tree:
                yield TREE
            nodes = visibility.identity is None or allows(visibility.identity, Permission.READ_CLUSTER)
            if nodes and query.by == (By.FLAVOR,) and not query.pools:
                yield FLAVOR

    def _summed(self, ask: "_Ask", starts: Sequence[int], end: int, hours: Iterable[Hour]) -> Iterator[Summed]:
        every = ask.query.every
        if every in (Every.HOUR, Every.DAY):
            queries = [ask.sums_query(starts[0], end, HOUR_S if every is Every.HOUR else DAY_S)]
        else:
            queries = [ask.sums_query(first, last, None) for first, last in pairwise((*starts, end))]
        for query in queries:
            for start, keys, sums in summed(self._store, hours, query):
                yield max(start, starts[0]), keys, sums


class _Ask:
    """A query for one table. If the user may not see everything, it also groups by what decides that."""

    def __init__(self, table: str, query: UsageQuery, visibility: Visibility) -> None:
        self.table, self.query, self._visibility = table, query, visibility
        decides = () if visibility.whole else ("pool", "user")
        names = dict.fromkeys((*(each.value for each in query.by), *decides))
        self._by = tuple(name for name in names if name in KEYS[table])

    def sums_query(self, begin: int, end: int, buckets: int | None) -> SumsQuery:
        others = {"user": self.query.users, "flavor": self.query.flavors}
        return SumsQuery(
            self.table,
            begin,
            end,
            self._by,
            buckets,
            self.query.pools,
            {name: values for name, values in others.items() if values},
        )

    def group(self, start: int, keys: tuple[str, ...]) -> Group | None:
        """Returns None if the user asked for what they may not see."""
        of = dict(zip(self._by, keys, strict=True))
        hidden = not self._sees(of)
        if hidden and self.query.users:
            return None
        shown = (None if hidden and each is not By.FLAVOR else of.get(each.value) for each in self.query.by)
        return start, hidden, tuple(shown)

    def _sees(self, of: dict[str, str]) -> bool:
        identity = self._visibility.identity
        if self._visibility.whole or identity is None or "pool" not in of:
            return True
        return self._visibility.sees(of["pool"]) or of.get("user") == identity.user


def _with_subpools(query: UsageQuery, found: Found, netted: Found) -> Found:
    """The sums of each pool with its subpools, of those that have any. *netted*: what was stored of them (`TREE`)."""
    place, sums = query.by.index(By.POOL), Found()
    parents = {values[place] for _, _, values in netted}
    for (start, hidden, values), of in found.items():
        if not hidden and (pool := values[place]) is not None:
            top = top_level(pool)
            parents |= {top} if top != pool else set()
            _add(sums.setdefault((start, False, (*values[:place], top, *values[place + 1 :])), {}), of.items())
    wanted = parents.intersection(query.pools) if query.pools else parents
    trees = {group: of for group, of in sums.items() if group[2][place] in wanted}
    for group, of in trees.items():
        exact = netted.get(group, {})
        if exact.get("quota", 0) == of.get("quota", 0):
            of |= exact
        else:  # Part of it is older than the sums of trees.
            for column in ("drawn", "borrowed", "lent"):
                del of[column]
    return trees


def _add(sums: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for column, amount in more:
        sums[column] = sums.get(column, 0) + amount


def _row(group: Group, by: tuple[By, ...], sums: dict[str, int], *, subtree: bool = False) -> UsageRow:
    start, others, values = group
    names = dict(zip((each.value for each in by), values, strict=True))
    seconds = {column: amount / MICROSECONDS for column, amount in sums.items()}
    if "borrowed" in sums:
        seconds["guaranteed"] = (sums.get("held", 0) - sums["drawn"] - sums["borrowed"]) / MICROSECONDS
    work: dict[str, Any] = dict.fromkeys(COLUMNS[WORK], 0.0)
    rest: dict[str, Any] = dict.fromkeys((*COLUMNS[QUOTA], "guaranteed", *COLUMNS[FLAVOR]))
    named: dict[str, Any] = dict.fromkeys(each.value for each in By) | names
    return UsageRow(at(start), others=others, subtree=subtree, **named, **(work | rest | seconds))


# ---------------------------------------------------------------- time


def _hours(query: UsageQuery, now: float) -> tuple[int, int]:
    """The whole hours that the query covers."""
    until = now if query.until is None else query.until
    since = until - USUAL_S if query.since is None else query.since
    if since > now:
        raise InvalidInput.one(
            f"`since` is {_shown(since)}, and usage is known only up to now. Use an earlier time", "since"
        )
    if since >= until:
        raise InvalidInput.one(
            f"`since` must be before `until`, which is {_shown(until)}. Use an earlier time", "since"
        )
    return int(since // HOUR_S) * HOUR_S, -int(-until // HOUR_S) * HOUR_S


def _shown(time: float) -> str:
    return f"{at(time):%Y-%m-%d %H:%M} UTC"


def _starts(begin: int, end: int, every: Every | None) -> list[int]:
    """When the buckets begin, in order; the first one at *begin*. Weeks begin on Monday, months on the first, in UTC."""
    found = [begin]
    if every is None:
        return found
    while (start := _after(found[-1], every)) < end:
        found.append(start)
        if len(found) > MOST_ROWS:
            raise InvalidInput.one(
                f"too many steps (maximum {MOST_ROWS:,}). Use a shorter time or longer steps", "every"
            )
    return found


def _after(start: int, every: Every) -> int:
    """When the bucket that contains *start* ends."""
    moment = datetime.fromtimestamp(start, UTC)
    day = moment.replace(hour=0)
    match every:
        case Every.HOUR:
            return start + HOUR_S
        case Every.DAY:
            following = day + timedelta(days=1)
        case Every.WEEK:
            following = day + timedelta(days=7 - day.weekday())
        case Every.MONTH:
            following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return int(following.timestamp())
