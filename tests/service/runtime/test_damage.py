"""Damaged databases: a server refuses to start on what it can see is wrong, with the way out (D7)."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runrig.backends.simulated import SimulatedClock
from runrig.domain.errors import RunrigError, ServerFault
from runrig.domain.gangs import Priority
from runrig.domain.records import Loaded
from runrig.service.runtime.transactor import Transactor
from runrig.store import SqlStore
from tests.worlds.service import desk

FLIPS = 400
ONLY_SAID_ONCE = {
    *(f"nodes.{each}" for each in ("name", "resources", "flavor", "labels", "taints", "ready")),
    *(f"pools.{each}" for each in ("quotas", "cohort", "weight", "grace_s", "flavors", "topology_keys", "description")),
    *(
        f"workflows.{each}"
        for each in ("uuid", "submitted_by", "labels", "failure_message", "start_time", "cancelled_by", "times")
    ),
    *(
        f"groups.{each}"
        for each in ("preemptions", "refusals", "stopping", "failure_message", "queued_time", "start_time")
    ),
    *(f"tasks.{each}" for each in ("lead", "exit_code", "failure_message", "start_time", "restarting")),
    *(f"gangs.{each}" for each in ("placement", "waits_for", "admitted_at", "preempted_by", "law")),
    *("flavors.name", "specs", "numbers", "revision"),
}
"""What nothing else repeats (docs/production-backup.md): another value is as good there as the one that was stored."""

STEPS = """
workflow:
  name: steps
  groups:
  - {name: first, tasks: [{name: a, lead: true, image: any, command: [x], duration: 1000, resource: one}]}
  - {name: then, tasks: [{name: b, lead: true, image: any, command: [x], inputs: [{task: a}], resource: one}]}
  resources: {one: {gpu: 1}}
"""


@cache
def whole() -> bytes:
    """A database with work that waits, runs, is preempted, has ended, and has steps."""
    with TemporaryDirectory() as folder:
        with desk(Path(folder)) as it:
            it.submit("short", duration=5)
            it.later(10)
            it.submit("steps", text=STEPS)
            it.submit("low", gpus=2, priority=Priority.LOW)
            it.later(1)
            it.submit("wide", gpus=2, pool="pool2")
            it.submit("late", gpus=2)
            it.later(1)
        return (Path(folder) / "runrig.db").read_bytes()


def loaded(path: Path) -> Loaded:
    """What a server that starts has in memory."""
    with (
        closing(SqlStore.open(path, exclusive=True)) as store,
        Transactor(store, SimulatedClock(), fixed_nodes=True, topology=True).reading() as state,
    ):
        return state.rows()


def said(path: Path) -> str:
    with pytest.raises(ServerFault) as refused:
        loaded(path)
    return refused.value.message


def test_undamaged_database_starts(tmp_path: Path) -> None:
    path = tmp_path / "runrig.db"
    path.write_bytes(whole())
    rows = loaded(path)
    assert [(each.gang.id, each.state.value) for each in rows.gangs] == [
        ("late-1/main-group", "PENDING"),
        ("low-1/main-group", "STOPPING"),
        ("steps-1/first", "ADMITTED"),
        ("wide-1/main-group", "NOMINATED"),
    ]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("UPDATE workflows SET status = 'COMPLETED' WHERE id = 'late-1'", "row late-1: invalid end_time"),
        ("UPDATE workflows SET status = 'RUNNING' WHERE id = 'short-1'", "row short-1: invalid end_time"),
        ("UPDATE workflows SET number = 7 WHERE id = 'short-1'", "row short-1: invalid id"),
        ("UPDATE gangs SET id = 'mate-1/main-group' WHERE workflow = 'late-1'", "invalid id"),
        (
            "UPDATE workflows SET priority = 'HIGH' WHERE id = 'late-1'",
            "does not match the specification of its workflow",
        ),
        (
            "UPDATE gangs SET pod_sets = replace(pod_sets, '2', '1') WHERE workflow = 'late-1'",
            "does not match the specification",
        ),
        ("UPDATE gangs SET attempt = 1 WHERE workflow = 'late-1'", "does not match the specification"),
        ("UPDATE gangs SET state = 'PENDING' WHERE workflow = 'steps-1'", "is RUNNING, but its gang is PENDING"),
        ("DELETE FROM gangs WHERE workflow = 'late-1'", "is SCHEDULING, but its gang is missing"),
        ("UPDATE groups SET status = 'RUNNING' WHERE name = 'then'", "is RUNNING, but its gang is missing"),
        ("DELETE FROM tasks WHERE workflow = 'late-1'", "lacks tasks of its specification"),
        ("UPDATE tasks SET status = 'RUNNING' WHERE workflow = 'late-1'", "is RUNNING, but its group is SCHEDULING"),
        ("UPDATE tasks SET end_time = start_time WHERE name = 'a'", "is RUNNING, but has an end_time"),
        ("UPDATE tasks SET gpus = '[3]' WHERE name = 'a'", "which its gang has not reserved for it"),
        ("UPDATE meta SET revision = 1", "table meta, row 1: invalid revision"),
    ],
)
def test_rows_that_contradict_each_other_are_found_at_the_start(tmp_path: Path, edit: str, says: str) -> None:
    path = tmp_path / "runrig.db"
    path.write_bytes(whole())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.executescript(edit)
        assert connection.total_changes
    message = said(path)
    assert says in message
    assert "restore" in message


def changed(before: Loaded, after: Loaded) -> Iterator[str]:
    """Which fields of which records are not what they were."""
    for kind in fields(Loaded):
        was, now = getattr(before, kind.name), getattr(after, kind.name)
        if not isinstance(was, tuple) or len(was) != len(now):
            yield from [kind.name] if was != now else []
            continue
        for old, new in zip(was, now, strict=True):
            yield from (
                f"{kind.name}.{field.name}"
                for field in fields(old)
                if getattr(old, field.name) != getattr(new, field.name)
            )


@pytest.mark.soak
def test_changed_byte_is_refused_or_harmless_or_changes_only_free_text(tmp_path: Path) -> None:
    path, chance = tmp_path / "runrig.db", random.Random(16)
    path.write_bytes(whole())
    before, refused = loaded(path), 0
    unseen: set[str] = set()
    with closing(sqlite3.connect(path)) as connection:  # a start does not read the log
        connection.executescript("DELETE FROM events; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
    sound = path.read_bytes()
    places = [at for at, byte in enumerate(sound) if byte]
    for _ in range(FLIPS):
        damaged = bytearray(sound)
        damaged[chance.choice(places)] ^= 1 << chance.randrange(8)
        for file in tmp_path.iterdir():
            file.unlink()
        path.write_bytes(damaged)
        try:
            unseen |= {*changed(before, loaded(path))}
        except RunrigError:
            refused += 1
    assert refused > FLIPS / 2
    assert unseen <= ONLY_SAID_ONCE


def test_unreadable_event_stops_no_decisions(tmp_path: Path) -> None:
    """What a server decides from is in other tables; who asks for the event gets the error."""
    path = tmp_path / "runrig.db"
    path.write_bytes(whole())
    expected = loaded(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE events SET action = '{broken' WHERE rowid = (SELECT max(rowid) FROM events)")
    assert loaded(path) == expected
    with closing(SqlStore.open(path, exclusive=True)) as store, pytest.raises(ServerFault, match="is not JSON"):
        store.log.events()
