"""Usage: the space that two years of it take, from the size of some hours and days."""

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

from sqlalchemy import text

from bench.section import Cell, Rows, verdict
from bench.store import KINDS, fresh
from runrig.domain.usage import FLAVOR, HOUR_S, KEEP_DAYS_S, KEEP_HOURS_S, QUOTA, WORK, Hour, Key, Sums, nothing_folded
from runrig.ports.usage import Position
from runrig.service.usage.follower import VERSION
from runrig.store import SqlStore
from runrig.store.schema import usage_keys, usage_sums

POOLS, USERS, FLAVORS = 1_000, 5_000, ("h100", "b200")
WORKING: Mapping[int, int] = {1: 3_000, 24: 12_600}
"""Keys of work in an hour and in a day, by the length in hours; one for each pool and flavor comes with them."""
KEYS: Sequence[Key] = [
    (WORK, f"pool{(user * 7 + pool) % POOLS:04}", flavor, priority, f"user{user:04}")
    for user, pool, flavor, priority in product(range(USERS), range(3), FLAVORS, ("LOW", "NORMAL", "HIGH"))
]
"""Each user has three pools."""
HOURS, DAYS = 24, 2
BEGIN = 1_790_208_000
GOAL_GB = 0.7
ABOUT = (
    f"{POOLS:,} pools, {USERS:,} users, {len(FLAVORS)} flavors; {WORKING[1]:,} keys of work an hour and {WORKING[24]:,} a day. "
    f"{HOURS} hours and {DAYS} days are written, and multiplied. "
    f"Kept: hours for {KEEP_HOURS_S // 86_400} days, days for {KEEP_DAYS_S // 86_400}"
)


def rows(kinds: Sequence[str] = KINDS, many: tuple[int, int] = (HOURS, DAYS)) -> Rows:
    """*many*: hours and days that are written."""
    found: Rows = []
    for kind in kinds:
        with fresh(kind) as url:
            store = SqlStore.open(url)
            empty = _size(store, kind)
            # All keys first: they are written once, not in each hour.
            everyone: Sums = {(*key, "held"): 1 for key in KEYS}
            store.usage.replace(
                Position(nothing_folded(BEGIN), BEGIN, VERSION), [(1, Hour(BEGIN + DAYS * 86_400 - HOUR_S, everyone))]
            )
            sizes = [_size(store, kind)]
            for hours, count in zip((1, 24), many, strict=True):
                written = [(hours, Hour(BEGIN + at * hours * HOUR_S, _sums(hours, at))) for at in range(count)]
                store.usage.replace(Position(nothing_folded(BEGIN), BEGIN, VERSION), written)
                sizes.append(_size(store, kind))
            store.close()
        per_hour, per_day = (sizes[1] - sizes[0]) / many[0], (sizes[2] - sizes[1]) / many[1]
        keys = (sizes[0] - empty) / 1e9
        per_key = per_hour / (WORKING[1] + POOLS * len(FLAVORS) + len(FLAVORS))
        kept = keys + (per_hour * KEEP_HOURS_S / HOUR_S + per_day * KEEP_DAYS_S / 86_400) / 1e9
        whole = keys + (per_hour * KEEP_DAYS_S / HOUR_S + per_day * KEEP_DAYS_S / 86_400) / 1e9
        row: dict[str, Cell] = {
            "store": kind,
            "bytes a key": round(per_key),
            "kB an hour": round(per_hour / 1000),
        }
        row |= {
            "kB a day": round(per_day / 1000),
            "GB in 2 years": round(kept, 2),
            "GB if hours are kept too": round(whole, 1),
        }
        found.append(row | {"goal": GOAL_GB, "is": verdict(kept <= GOAL_GB)})
    return found


def _sums(hours: int, seed: int) -> Sums:
    """Amounts of the size that they have: some GPUs for some seconds, in microseconds."""
    chance, sums = Random(f"{hours} {seed}"), dict[Key, int]()
    work = list[Key]()
    for key in chance.sample(KEYS, WORKING[hours]):
        work.append(key)
        sums[(*key, "held")] = chance.randrange(10**9, 3 * 10**10 * hours)
        if chance.random() < 0.2:
            sums[(*key, "waited")] = chance.randrange(10**8, 10**10)
        if chance.random() < 0.05:
            sums[(*key, "lost_preempted")] = chance.randrange(10**8, 10**10)
    for pool in range(POOLS):
        for flavor in FLAVORS:
            key = (QUOTA, f"pool{pool:04}", flavor)
            sums[(*key, "quota")] = 8 * 3600 * 10**6 * hours
            for column, often in (("borrowed", 0.3), ("lent", 0.5)):
                if chance.random() < often:
                    sums[(*key, column)] = chance.randrange(10**8, 10**10 * hours)
    for flavor in FLAVORS:
        sums |= {(FLAVOR, flavor, column): chance.randrange(10**12, 10**14) for column in ("capacity", "free")}
    return sums


def _size(store: SqlStore, kind: str) -> int:
    """Bytes of the tables of usage."""
    with store.transactions.reading() as connection:
        if kind == "sqlite":
            pages = connection.execute(text("PRAGMA page_count")).scalar_one()
            free = connection.execute(text("PRAGMA freelist_count")).scalar_one()
            return int((pages - free) * connection.execute(text("PRAGMA page_size")).scalar_one())
        sizes = (
            connection.execute(text(f"SELECT pg_total_relation_size('{each.name}')"))
            for each in (usage_sums, usage_keys)
        )
        return sum(int(size.scalar_one()) for size in sizes)
