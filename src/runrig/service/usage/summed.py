"""Sums of usage: from the tables, and from the hours that are not in them yet."""

from collections.abc import Iterable, Iterator

from runrig.domain.pools import top_level
from runrig.domain.usage import COLUMNS, KEYS, Hour
from runrig.ports.usage import Summed, SumsQuery, UsageStore


def summed(store: UsageStore, hours: Iterable[Hour], query: SumsQuery) -> Iterator[Summed]:
    """As `UsageStore.sums`, with *hours*, those of `Follower.open_hours`. Several sums can have the same bucket and names."""
    yield from store.sums(query)
    yield from in_memory(hours, query)


def in_memory(hours: Iterable[Hour], query: SumsQuery) -> Iterator[Summed]:
    """*hours*: or minutes, which have no users."""
    names, columns = KEYS[query.table], COLUMNS[query.table]
    places = [1 + names.index(name) for name in query.by]
    for hour in hours:
        if query.begin <= hour.begin < query.end:
            start = query.begin if query.buckets is None else hour.begin - hour.begin % query.buckets
            for key, amount in hour.sums.items():
                if key[0] == query.table and _counts(query, dict(zip(names, key[1:-1], strict=False))):
                    sums = tuple(amount if column == key[-1] else 0 for column in columns)
                    yield start, tuple(key[place] for place in places), sums


def _counts(query: SumsQuery, of: dict[str, str]) -> bool:
    pool = of.get("pool", "")
    if query.pools and pool not in query.pools and top_level(pool) not in query.pools:
        return False
    return all(of.get(name) in values for name, values in query.others.items())
