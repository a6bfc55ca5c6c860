"""`runrig admin usage`: stored sums that differ from the log are found, and replaced together."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection, Table, delete, insert, select, update

from runrig.domain.usage import COLUMNS, FLAVOR, QUOTA, TOTALS, WORK
from runrig.service.usage.follower import Follower
from runrig.service.usage.recount import recount
from runrig.store import SqlStore, schema
from runrig.store import usage as store_usage
from runrig.store.dialect import insert_rows
from runrig.store.rows import Row
from runrig.store.usage import _packed, _unpacked
from runrig.wiring.usage_check import rebuild_usage
from tests.stores import KINDS, store_url
from tests.tiers import only_slow
from tests.worlds.command_line import runrig
from tests.worlds.service import desk
from tests.worlds.usage import DAY, busy_days

_SUMS, _KEY = schema.usage_sums.c, schema.usage_keys.c


def _fold_all(store: SqlStore, clock: object) -> None:
    follower = Follower(store, clock)  # type: ignore[arg-type]
    while follower.step():
        pass


def _rows(store: SqlStore) -> list[Row]:
    rows = select(schema.usage_sums).order_by(*schema.usage_sums.primary_key)
    with store.transactions.reading() as connection:
        return [tuple(row) for row in connection.execute(rows)]


def _add(connection: Connection, name: str, begin: int, column: str, keys: Iterable[int] = (), hours: int = 1) -> None:
    """Adds a GPU-hour to the sums of *keys*; none: to all that are not 0 and of ann or of nobody."""
    of = (_SUMS.name == name, _SUMS.hours == hours, _SUMS.begin == begin)
    ids, columns = _unpacked(name, connection.execute(select(_SUMS.packed).where(*of)).scalar_one())
    amounts = [Counter(dict(zip(ids, sums, strict=True))) for sums in columns]
    named = connection.execute(select(_KEY.id).where(_KEY.user.in_(("ann", "")))).scalars()
    found = amounts[COLUMNS[name].index(column)]
    for id in keys or [id for id in named if found[id]]:
        found[id] += 3_600_000_000
    connection.execute(update(schema.usage_sums).where(*of).values(packed=_packed(amounts)))


def _damage(store: SqlStore) -> None:
    """A sum of an hour and of the first day, all of another hour, and a pool that never was."""
    with store.transactions.writing() as connection:
        first = select(_SUMS.begin).where(_SUMS.hours == 1, _SUMS.name == WORK).order_by(_SUMS.begin).limit(1)
        begin = connection.execute(first).scalar_one()
        day = begin - begin % DAY
        _add(connection, WORK, begin, "held")
        _add(connection, WORK, day, "held", hours=24)
        connection.execute(delete(schema.usage_sums).where(_SUMS.name == FLAVOR, _SUMS.begin == begin + 3600))
        _add(connection, TOTALS[QUOTA], begin + 7200, "lent")
        connection.execute(insert(schema.usage_keys).values((1_000, day, "ghost", "default", "", "")))
        _add(connection, QUOTA, begin + 7200, "quota", (1_000,))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_is_named_and_replaced_on_both_databases(kind: str, tmp_path: Path) -> None:
    with store_url(kind, tmp_path) as url, desk(tmp_path, database=url) as there:
        busy_days(there, lambda: None)
        _fold_all(there.store, there.service.clock)
        before = _rows(there.store)
        assert not recount(there.store, None).differences
        _damage(there.store)
        found = recount(there.store, None)
        assert {(each.hours, each.key[0]) for each in found.differences} == {
            (1, "work"),
            (24, "work"),
            (1, "flavor"),
            (1, "quota"),
            (1, "quota_total"),
        }
        there.store.usage.replace(found.position, found.wrong)
        assert _rows(there.store) == before


def test_command_finds_a_damaged_sum_and_rebuilds_it(tmp_path: Path) -> None:
    with desk(tmp_path) as there:
        nothing = runrig("admin", "usage", "check", "--data", str(tmp_path))
        assert (nothing.code, nothing.err) == (2, "Error: no usage is stored yet. Start the server first\n")
        busy_days(there, lambda: None)
        _fold_all(there.store, there.service.clock)
        before, command = _rows(there.store), ("--data", str(tmp_path))
        good = runrig("admin", "usage", "check", *command)
        assert (good.code, good.out.splitlines()) == (
            0,
            [
                "compared 66 hours and 2 days, 2027-01-15 00:00 to 2027-01-17 18:00 UTC",
                "the stored usage agrees with the event log",
            ],
        )
        _damage(there.store)
        damaged = _rows(there.store)
        bad = runrig("admin", "usage", "check", *command)
        assert bad.code == 1
        lines = bad.out.splitlines()
        assert lines[1] == "6 sums differ from the event log, in GPU-hours:"
        assert [" ".join(line.split()) for line in lines[2:3] + lines[4:]] == [
            "From Hours Pool Flavor Priority User Sum Stored In the log",
            "2027-01-15 08:00 1 pool2 default LOW ann held 4.9989 3.9989",
            "2027-01-15 09:00 1 - default - - capacity 0.0000 4.0000",
            "2027-01-15 10:00 1 ghost default - - quota 1.0000 0.0000",
            "2027-01-15 10:00 1 - default - - lent 1.4456 0.4456",
            "2027-01-15 00:00 24 pool1 default NORMAL ann held 28.5544 27.5544",
            "2027-01-15 00:00 24 pool2 default LOW ann held 9.8900 8.8900",
        ]
        assert runrig("admin", "usage", "check", *command, "--since", "2100-01-01").code == 0
        answer = runrig("admin", "usage", "check", *command, "-t", "json")
        assert answer.code == 1
        assert {"ghost"} < {each["pool"] for each in json.loads(answer.out)["differences"]}
        assert _rows(there.store) == damaged
        assert runrig("admin", "usage", "rebuild", *command, width=200, typed="n\n").code != 0
        assert _rows(there.store) == damaged
        done = runrig("admin", "usage", "rebuild", *command)
        assert (done.code, done.out.splitlines()[-1]) == (0, "replaced the sums of 3 hours and 1 day")
        assert _rows(there.store) == before
        there.later(2.0 * DAY)
        _fold_all(there.store, there.service.clock)
        assert not recount(there.store, None).differences


@pytest.mark.slow
def test_rebuild_that_is_killed_in_the_middle_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_slow("a child that is killed")
    with desk(tmp_path) as there:
        busy_days(there, lambda: None)
        _fold_all(there.store, there.service.clock)
    store = SqlStore.look(tmp_path / "runrig.db")
    _damage(store)
    damaged = _rows(store)
    store.close()

    def killed(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
        insert_rows(connection, table, rows[: len(rows) // 2])
        os._exit(9)

    child = os.fork()
    if child == 0:
        try:
            monkeypatch.setattr(store_usage, "insert_rows", killed)
            rebuild_usage(tmp_path / "runrig.db", None, lambda _: None)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    store = SqlStore.look(tmp_path / "runrig.db")
    assert _rows(store) == damaged
    store.close()
