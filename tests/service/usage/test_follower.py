"""The follower: folds the log of a server into tables, from wherever it was stopped."""

import zlib
from dataclasses import replace
from itertools import product
from pathlib import Path
from struct import pack

import pytest
from sqlalchemy import delete, func, insert, select, update

from runrig.domain.gangs import Priority
from runrig.domain.plan import Decision, Declaration, Queue
from runrig.domain.quantities import LARGEST
from runrig.domain.usage import HOUR_S, KEEP_DAYS_S, MICROSECONDS, QUOTA, WORK, Hour, microseconds, nothing_folded
from runrig.engine.usage.fold import Fold
from runrig.engine.usage.quota_sums import MOST_SUMMED
from runrig.ports.usage import Position, SumsQuery
from runrig.service.runtime.retention import Retention
from runrig.service.usage.follower import VERSION, Follower
from runrig.service.usage.recount import recount
from runrig.service.usage.summed import alike, in_memory
from runrig.store import SqlStore, schema
from runrig.store.usage import SqlUsage
from tests.patience import until
from tests.stores import KINDS, store_url
from tests.worlds.service import T0, desk
from tests.worlds.usage import busy_days

DAY = 24 * HOUR_S


def _rows(store: SqlStore) -> list[tuple[object, ...]]:
    rows = select(schema.usage_sums).order_by(*schema.usage_sums.primary_key)
    with store.transactions.reading() as connection:
        return [tuple(row) for row in connection.execute(rows)]


def _pools(store: SqlStore) -> set[str]:
    """Those that rows can name; "" is that of sums of a flavor."""
    with store.transactions.reading() as connection:
        return {*connection.execute(select(schema.usage_keys.c.pool)).scalars()}


def _position(store: SqlStore) -> Position:
    found = store.usage.position()
    assert found is not None
    return found


def _folded_revision(store: SqlStore) -> int | None:
    with store.transactions.reading() as connection:
        found: int | None = connection.execute(select(schema.usage_cursor.c.revision)).scalar_one_or_none()
    return found


def _fold_all(follower: Follower) -> None:
    while follower.step():
        pass


def test_follower_stopped_anywhere_writes_what_an_uninterrupted_one_does(tmp_path: Path) -> None:
    with desk(tmp_path) as there:
        busy_days(there, lambda: _fold_all(Follower(there.store, there.service.clock)))
        often = _rows(there.store)
        assert {row[:2] for row in often} >= {(WORK, 1), (WORK, 24)}
        with there.store.transactions.writing() as connection:
            for table in (schema.usage_sums, schema.usage_cursor):
                connection.execute(delete(table))
        _fold_all(Follower(there.store, there.service.clock))
        assert _rows(there.store) == often
        assert _pools(there.store) == {"", "pool1", "pool2"}


def test_tables_and_open_hours_together_cover_the_whole_log(tmp_path: Path) -> None:
    """By hours, by days, and as one sum."""
    with desk(tmp_path) as there:
        follower = Follower(there.store, there.service.clock)
        busy_days(there, lambda: _fold_all(follower))
        events = [e for e in there.store.log.events() if isinstance(e.action, Decision | Declaration)]
        queued = {e.action.gang.workflow: "ann" for e in events if isinstance(e.action, Queue)}
        fold = Fold(nothing_folded(microseconds(events[0].time)))
        now = there.service.clock.now()
        whole: dict[str, int] = {}
        for hour in [*fold.apply(events, queued), *fold.until(microseconds(now))]:
            for key, amount in hour.sums.items():
                if key[0] == WORK:
                    whole[key[1]] = whole.get(key[1], 0) + amount * (key[-1] == "held")
        for buckets in (None, HOUR_S, DAY):
            query = SumsQuery(WORK, int(T0) - DAY, int(now) + DAY, ("pool",), buckets)
            found = dict.fromkeys(whole, 0)
            for _, (pool,), (held, *_) in there.store.usage.sums(query):
                found[pool] += held
            known = follower.open_hours()
            assert known is not None
            for hour in known[0]:
                for key, amount in hour.sums.items():
                    if key[0] == WORK:
                        found[key[1]] += amount * (key[-1] == "held")
            assert found == whole
            for table, by in product((WORK, QUOTA), ((), ("flavor",))):
                alone = replace(query, table=table, by=by)
                of_pools = replace(alone, pools=("pool1", "pool2"))  # All pools, so their rows are added up.
                assert sorted(there.store.usage.sums(alone)) == sorted(there.store.usage.sums(of_pools)) != []


def test_workflow_is_kept_until_it_is_folded(tmp_path: Path) -> None:
    with desk(tmp_path) as there:
        follower = Follower(there.store, there.service.clock)
        follower.step()
        there.submit("old", duration=10)
        there.service.settle()
        there.later(100)
        there.later(10 * DAY)
        retention = Retention(there.store, there.backend, there.service.clock, 5.0, there.service.metrics)
        while retention.step():
            pass
        assert there.status("old-1") == "COMPLETED"
        there.submit("new", duration=10)
        there.later(100)
        _fold_all(follower)
        before = _rows(there.store)
        while retention.step():
            pass
        assert there.store.retention.past_numbers() == {"old": 1}
        assert _rows(there.store) == before


def test_a_clock_that_jumps_by_decades_counts_the_hours_of_two_years(tmp_path: Path) -> None:
    with desk(tmp_path) as there:
        follower = Follower(there.store, there.service.clock)
        there.submit("w", gpus=1)
        there.service.settle()
        _fold_all(follower)
        follower.counters()
        there.later(45 * 365 * DAY)
        there.submit("x", gpus=1)
        there.service.settle()
        known = follower.open_hours()
        assert known is not None
        assert len(known[0]) <= (KEEP_DAYS_S + DAY) // HOUR_S + 2
        assert len([*alike(known[0])]) == 3
        days = SumsQuery(WORK, 0, 2**40, ("user",), DAY)
        assert len([*in_memory(known[0], days)]) <= 2 * (KEEP_DAYS_S // DAY + 3)
        held = sum(sums[0] for _, _, sums in in_memory(known[0], days))
        assert follower.counters()[0][WORK, "pool1", "default", "held"] == held
        _fold_all(follower)
        assert len({row[1:3] for row in _rows(there.store)}) < 3_000
        end = int(there.service.clock.now()) // DAY * DAY
        for begin, amount in ((end - KEEP_DAYS_S, DAY), (end - 10 * DAY, DAY), (end - KEEP_DAYS_S - DAY, 0)):
            (found,) = there.store.usage.sums(SumsQuery(WORK, begin, begin + DAY)) or [(0, (), (0,))]
            assert found[2][0] == amount * MICROSECONDS
        assert recount(there.store, None).differences == []


def test_quota_that_means_no_limit_is_counted(tmp_path: Path) -> None:
    """Its sums fit in the database, also those of a day and of all pools."""
    most = 2**63 - 1
    pools = f"pools: [{{name: pool1, quota: {most}}}, {{name: pool2, quota: {most}}}]"
    with desk(tmp_path, cluster=pools) as there:
        follower = Follower(there.store, there.service.clock)
        follower.step()
        there.later(3 * DAY)
        there.submit("w")
        there.service.settle()
        _fold_all(follower)
        query = SumsQuery(QUOTA, int(T0), int(T0) + 3 * DAY)
        assert there.store.usage.sums(query)[0][2][0] == 2 * MOST_SUMMED * 3 * DAY * MICROSECONDS


@pytest.mark.parametrize(
    ("name", "packed"),
    [(WORK, b""), (WORK, b"x"), (WORK, zlib.compress(b"x")), (WORK, zlib.compress(pack("<q", 1))), ("odd", b"x")],
)
def test_a_damaged_row_stops_neither_the_fold_nor_a_query(name: str, packed: bytes, tmp_path: Path) -> None:
    with desk(tmp_path) as there:
        follower = Follower(there.store, there.service.clock)
        busy_days(there, lambda: _fold_all(follower))
        sums, revision = schema.usage_sums.c, _folded_revision(there.store)
        with there.store.transactions.writing() as connection:
            last = connection.execute(select(func.max(sums.begin)).where(sums.hours == 1)).scalar_one()
            damaged = update(schema.usage_sums).where(sums.name == WORK, sums.begin >= last - 12 * HOUR_S)
            connection.execute(damaged.values(name=name, packed=packed))
        stored = SumsQuery(QUOTA, int(T0), last + HOUR_S)
        quota = there.store.usage.sums(stored)
        there.submit("w")
        there.later(2 * DAY)
        _fold_all(Follower(there.store, there.service.clock))
        assert (_folded_revision(there.store) or 0) > (revision or 0)
        assert there.store.usage.sums(stored) == quota
        assert there.store.usage.sums(replace(stored, table=WORK))
        assert WORK not in {key[0] for key in there.store.usage.stored(1, last)}


def test_a_sum_of_more_than_64_bits_is_the_largest(tmp_path: Path) -> None:
    """Without fixed nodes, anybody can wait for a billion GPUs."""
    with desk(tmp_path) as there:
        _fold_all(Follower(there.store, there.service.clock))
        hour = Hour(int(T0), {(WORK, "pool1", "default", "LOW", "zoë", "waited"): 2**70})
        there.store.usage.save(_position(there.store), [hour], keep_hours=0, keep_days=0)
        query = SumsQuery(WORK, hour.begin, hour.begin + HOUR_S, ("user",))
        assert there.store.usage.sums(query) == [(hour.begin, ("zoë",), (0, LARGEST, 0, 0))]


def test_failure_in_the_middle_loses_and_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path) as there:
        follower = Follower(there.store, there.service.clock)
        failures = 0
        save = SqlUsage.save

        def fails_first(self: SqlUsage, *given: object, **named: object) -> None:
            nonlocal failures
            failures += 1
            if failures % 2:
                raise OSError("disk full")
            save(self, *given, **named)  # type: ignore[arg-type]

        def fold() -> None:
            for _ in range(3):
                try:
                    _fold_all(follower)
                except OSError:
                    continue
                return

        with monkeypatch.context() as patched:
            patched.setattr(SqlUsage, "save", fails_first)
            busy_days(there, fold)
        assert failures > 4
        _fold_all(follower)
        found = _rows(there.store)
        with there.store.transactions.writing() as connection:
            for table in (schema.usage_sums, schema.usage_cursor):
                connection.execute(delete(table))
        _fold_all(Follower(there.store, there.service.clock))
        assert _rows(there.store) == found


@pytest.mark.parametrize("what", ["an event", "the position"])
def test_unfoldable_event_is_skipped_after_a_few_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("runrig.service.usage.follower.PAUSE_S", 0.0)
    monkeypatch.setattr("runrig.service.usage.follower.REST", 0.0)
    with desk(tmp_path, judged=what != "an event") as there:
        there.submit("a", "pool1", Priority.NORMAL, gpus=1, duration=10.0)
        there.service.settle()
        event = update(schema.events).where(schema.events.c.kind == "Admit").values(action={"gang": 1})
        position = update(schema.usage_cursor).values(rest=b"damaged", revision=2)
        if what == "the position":
            _fold_all(Follower(there.store, there.service.clock))
        with there.store.transactions.writing() as connection:
            connection.execute(event if what == "an event" else position)
        follower = Follower(there.store, there.service.clock)
        follower.thread.start()
        damaged = there.revision
        until(lambda: _folded_revision(there.store) == damaged)
        follower.thread.stop()
        there.later(2.0 * HOUR_S)
        _fold_all(follower)
        assert _position(there.store).folded.revision == there.revision


def test_usage_begins_at_the_first_checkpoint_if_older_workflows_are_gone(tmp_path: Path) -> None:
    with desk(tmp_path) as there:
        there.submit("runs", gpus=2, duration=5 * DAY)
        there.later(7200)
        with there.store.transactions.writing() as connection:
            connection.execute(insert(schema.past_numbers).values(("gone", 3)))
        there.service.keeper.step()
        there.later(10)
        there.submit("next", "pool2", duration=10)
        there.service.settle()
        there.later(10)
        there.later(10 * HOUR_S)
        follower = Follower(there.store, there.service.clock)
        _fold_all(follower)
        checkpoint = there.store.past.first_checkpoint()
        assert checkpoint is not None
        assert _position(there.store).since == microseconds(checkpoint.time)
        query = SumsQuery(WORK, int(T0) - DAY, int(T0) + DAY, ("user",))
        known = follower.open_hours()
        assert known is not None
        sums_of = [pair for hour in known[0] for pair in hour.sums.items()]
        held = sum(amount for key, amount in sums_of if (key[0], key[-1]) == (WORK, "held"))
        held += sum(sums[0] for _, _, sums in there.store.usage.sums(query))
        now = there.service.clock.now()
        assert held == microseconds(2 * (now - checkpoint.time) + 10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_both_databases_return_the_position_and_the_sums_that_were_written(kind: str, tmp_path: Path) -> None:
    with store_url(kind, tmp_path) as url, desk(tmp_path, database=url) as there:
        follower = Follower(there.store, there.service.clock)
        busy_days(there, lambda: _fold_all(follower))
        assert follower._fold is not None
        folded = follower._fold.folded()
        position = Position(folded, 5 * MICROSECONDS, VERSION)
        amount = 6 * 10**18
        key = (WORK, "pool1", "default", "LOW", "zoë")
        hour = Hour(int(T0) + 100 * DAY, {(*key, "held"): amount, (*key, "lost_other"): 1})
        for _ in range(2):
            there.store.usage.save(position, [hour], keep_hours=0, keep_days=0)
        assert there.store.usage.position() == position
        query = SumsQuery(WORK, hour.begin, hour.begin + HOUR_S, ("user",), HOUR_S, ("pool1",), {"user": ("zoë",)})
        assert there.store.usage.sums(query) == [(hour.begin, ("zoë",), (amount, 0, 0, 1))]
        before = replace(hour, begin=hour.begin - HOUR_S)
        there.store.usage.save(position, [before], keep_hours=0, keep_days=0)
        both = replace(query, begin=before.begin, buckets=None)
        assert there.store.usage.sums(both) == [(before.begin, ("zoë",), (2 * amount, 0, 0, 2))]
        there.store.usage.save(position, [], keep_hours=hour.begin + 1, keep_days=hour.begin)
        assert not _rows(there.store)
        assert _pools(there.store) == {"", "pool1"}
        there.store.usage.save(position, [], keep_hours=hour.begin + DAY, keep_days=hour.begin + DAY)
        assert _pools(there.store) == set()
