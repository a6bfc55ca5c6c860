"""`runrig admin usage`: stored sums that differ from the log are found, and replaced together."""

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from runrig.service.usage.follower import Follower
from runrig.service.usage.recount import recount
from runrig.store import SqlStore, schema
from runrig.store import usage as store_usage
from runrig.store.rows import Row
from runrig.store.usage import TABLES
from runrig.wiring.usage_check import rebuild_usage
from tests.stores import KINDS, store_url
from tests.tiers import only_slow
from tests.worlds.command_line import runrig
from tests.worlds.service import desk
from tests.worlds.usage import DAY, busy_days

_WORK, _KEY = schema.usage_work.c, schema.usage_keys.c


def _fold_all(store: SqlStore, clock: object) -> None:
    follower = Follower(store, clock)  # type: ignore[arg-type]
    while follower.step():
        pass


def _rows(store: SqlStore) -> dict[str, list[Row]]:
    with store.transactions.reading() as connection:
        return {
            name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for name, table in TABLES.items()
        }


def _damage(store: SqlStore) -> None:
    """A sum of an hour and of the first day, all of another hour, and a pool that never was."""
    with store.transactions.writing() as connection:
        first = select(_WORK.begin).where(_WORK.hours == 1, _WORK.held > 0).order_by(_WORK.begin).limit(1)
        begin = connection.execute(first).scalar_one()
        held = (_WORK.key.in_(select(_KEY.id).where(_KEY.user == "ann")), _WORK.held > 0)
        for hours, at in ((1, begin), (24, begin - begin % DAY)):
            of = update(schema.usage_work).where(_WORK.hours == hours, _WORK.begin == at, *held)
            assert connection.execute(of.values(held=_WORK.held + 3_600_000_000)).rowcount > 0
        connection.execute(delete(schema.usage_flavor).where(schema.usage_flavor.c.begin == begin + 3600))
        total = update(schema.usage_quota_total).where(schema.usage_quota_total.c.begin == begin + 7200)
        assert connection.execute(total.values(lent=3_600_000_000)).rowcount == 1
        connection.execute(insert(schema.usage_keys).values((1_000, begin - begin % DAY, "ghost", "default", "", "")))
        connection.execute(insert(schema.usage_quota).values((1, begin + 7200, 1_000, 1_800_000_000, 0, 0, 0)))


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
            "2027-01-15 10:00 1 ghost default - - quota 0.5000 0.0000",
            "2027-01-15 10:00 1 - default - - lent 1.0000 0.4456",
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
    write, written = store_usage._write, list[int]()

    def killed_at_the_third(connection: Connection, hours: int, begin: int, rows: dict[str, list[Row]]) -> None:
        if len(written) == 2:
            os._exit(9)
        written.append(begin)
        write(connection, hours, begin, rows)

    child = os.fork()
    if child == 0:
        try:
            monkeypatch.setattr(store_usage, "_write", killed_at_the_third)
            rebuild_usage(tmp_path / "runrig.db", None, lambda _: None)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    store = SqlStore.look(tmp_path / "runrig.db")
    assert _rows(store) == damaged
    store.close()
