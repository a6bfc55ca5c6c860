"""Sums of usage: from the tables, and from the hours that are not in them yet."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from runrig.domain.pools import top_level
from runrig.domain.usage import COLUMNS, KEYS, Hour, Sums
from runrig.ports.usage import Summed, SumsQuery, UsageStore


def summed(store: UsageStore, hours: Iterable[Hour], query: SumsQuery) -> Iterator[Summed]:
    """As `UsageStore.sums`, with *hours*, those of `Follower.open_hours`. Several sums can have the same bucket and names."""
    yield from store.sums(query)
    yield from in_memory(hours, query)


def in_memory(hours: Iterable[Hour], query: SumsQuery) -> Iterator[Summed]:
    """*hours*: or minutes, which have no users."""
    names, columns = KEYS[query.table], COLUMNS[query.table]
    places = [1 + names.index(name) for name in query.by]
    within = (hour for hour in hours if query.begin <= hour.begin < query.end)
    for start, sums_of, count in alike(within, query):
        for key, amount in sums_of.items():
            if key[0] == query.table and _counts(query, dict(zip(names, key[1:-1], strict=False))):
                sums = tuple(count * amount if column == key[-1] else 0 for column in columns)
                yield start, tuple(key[place] for place in places), sums


def alike(hours: Iterable[Hour], query: SumsQuery | None = None) -> Iterator[tuple[int, Sums, int]]:
    """Yields the bucket of *query*, the sums and the number of adjacent hours that share these: after a clock jumped, there are years."""
    buckets, begin = (None, 0) if query is None else (query.buckets, query.begin)
    starts = ((begin if buckets is None else hour.begin - hour.begin % buckets, hour.sums) for hour in hours)
    for (start, _), several in groupby(starts, lambda each: (each[0], id(each[1]))):
        sums = [sums for _, sums in several]
        yield start, sums[0], len(sums)


def _counts(query: SumsQuery, of: dict[str, str]) -> bool:
    pool = of.get("pool", "")
    if query.pools and pool not in query.pools and top_level(pool) not in query.pools:
        return False
    return all(of.get(name) in values for name, values in query.others.items())
