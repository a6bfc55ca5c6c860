"""The chain of hashes: whatever is changed in a log is found, and what retention deletes breaks nothing."""

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.gangs import Priority
from runrig.store import SqlStore
from runrig.verify.chain import START, Chain, Unreadable, dumps, event_of
from runrig.verify.reading import commits, of_lines
from runrig.verify.verify import check
from runrig.wiring.backup import check_backup, write_backup
from tests.verify.test_event_export import STEPS, exported
from tests.worlds.service import desk, do, one_task

DAY = 86_400.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a server that was started twice, and preempted."""
    folder = tmp_path_factory.mktemp("server")
    with desk(folder) as server:
        server.submit("low", "pool1", Priority.LOW, gpus=4)
        server.later(5)
    with desk(folder, time=server.time[0]) as server:
        server.submit("firm", "pool2", Priority.NORMAL, gpus=2)
        for _ in range(5):
            server.later(60)
    return folder / "runrig.db"


@pytest.fixture
def database(server: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(server, tmp_path / "copy.db"))


def said(path: Path, head: str = "") -> tuple[int, list[str]]:
    lines: list[str] = []
    return check(str(path), since=0, laws=["S4"], head=head, as_json=False, say=lines.append), lines


def head_of(path: Path) -> str:
    chain = Chain()
    for _ in commits(str(path), chain):
        pass
    assert not chain.broken
    return chain.last.hex()


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for each in statements:
            assert connection.execute(each).rowcount > 0
        connection.commit()


def test_chain_of_a_server_continues_across_a_restart_and_its_head_is_shown(database: Path, tmp_path: Path) -> None:
    head = head_of(database)
    code, lines = said(database, head)
    assert (code, len(lines)) == (0, 1)
    assert lines[0].endswith(f"; chain unbroken to {head}")
    write_backup(database, tmp_path / "none", tmp_path / "a.backup", log_files=False)
    assert check_backup(tmp_path / "a.backup").header.head == head
    (tmp_path / "events.jsonl").write_text(exported(database))
    for each in ("a.backup", "events.jsonl"):
        assert head_of(tmp_path / each) == head


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET actor = 'bob' WHERE (revision, seq) = (3, 0)",
        "UPDATE events SET law = 'RECLAIM' WHERE (revision, seq) = (3, 0)",
        "UPDATE events SET time = replace(time, '.000000', '.000001') WHERE (revision, seq) = (3, 0)",
        "UPDATE events SET action = replace(action, ':', ': ') WHERE (revision, seq) = (3, 0)",
        "UPDATE events SET seq = 99 WHERE (revision, seq) = (3, 0)",
        "UPDATE events SET hash = zeroblob(32) WHERE revision = 3 AND hash IS NOT NULL",
        "DELETE FROM events WHERE (revision, seq) = (3, 0)",
    ],
)
def test_changed_commit_is_reported_with_its_revision(change: str, database: Path) -> None:
    run(database, change)
    code, lines = said(database)
    assert code == 1
    assert lines[0] == "revision 3, chain: this commit or an earlier one was changed"
    assert " broken to " in lines[-1]


def test_missing_commit_is_reported_at_the_next_one(database: Path) -> None:
    run(database, "DELETE FROM events WHERE revision = 3")
    code, lines = said(database)
    assert (code, lines[0]) == (1, "revision 4, chain: this commit or an earlier one was changed")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all that a log can have: events, leaves of deleted ones, and a snapshot that is named."""
    folder = tmp_path_factory.mktemp("small")
    with desk(folder) as server:
        server.submit("old", "pool1", duration=10.0)
        server.later(60)
        server.later(60)
        server.store.retention.prune(server.store.retention.expired(server.time[0] + DAY, 2), 1000)
        while server.store.retention.prune_events(3).rows:
            pass
        server.submit("steps", "pool1", text=STEPS)
        server.store.snapshots.take()
        server.submit("new", "pool1")
    return folder / "runrig.db"


@pytest.fixture(scope="module")
def every_line(small: Path) -> list[str]:
    return exported(small).splitlines()


def is_whole(lines: list[str]) -> bool:
    chain = Chain("it")
    try:
        for _ in chain.commits(of_lines(lines, "it")):
            pass
    except (Unreadable, KeyError, TypeError, ValueError, AttributeError, IndexError):  # As `reading.log` does.
        return False
    return not (chain.broken or chain.altered)


def changes(lines: list[str], at: int, chance: random.Random) -> Iterator[tuple[list[str], str]]:
    """Yields the export with one other character in line *at*, for each of them."""
    text = lines[at]
    for place, old in enumerate(text):
        digit = str((int(old) + 1) % 10) if old.isdigit() else ""
        for new in {old.swapcase() if old.isalpha() else chance.choice('09a "[{:,'), digit or old} - {old}:
            changed = f"{text[:place]}{new}{text[place + 1 :]}"
            yield [*lines[:at], changed, *lines[at + 1 :]], changed


def test_one_changed_byte_in_a_line_of_each_kind_is_found(every_line: list[str]) -> None:
    chance = random.Random(4)
    named = next(at for at, line in enumerate(every_line) if '"snapshot":[' in line and line[0] == "[")
    left = next(at for at, line in enumerate(every_line) if '{"leaf"' in line)
    assert is_whole(every_line)
    for at in (left, named, len(every_line) - 1):
        assert [changed for lines, changed in changes(every_line, at, chance) if is_whole(lines)] == []


@pytest.mark.slow
def test_one_changed_byte_anywhere_in_a_log_or_a_snapshot_is_found(every_line: list[str]) -> None:
    chance = random.Random(5)
    assert sum('{"snapshot"' in line[:12] for line in every_line) == 1
    for at in range(1, len(every_line)):
        assert [changed for lines, changed in changes(every_line, at, chance) if is_whole(lines)] == []


def others(value: Any) -> Iterator[Any]:
    """Yields what could stand in a cell in place of *value*: another type, a little more or less, one other character."""
    match value:
        case None:
            yield from (0, "", b"", "x", b"\0", "{}", '{"needs":{}}')
        case int():
            yield from (value + 1, value - 1, value + 0.5, None, f"{value} ")
        case bytes():
            yield from (None, b"", value[:-1], value + b"\0", value.hex())
            yield from (
                bytes([*value[:at], value[at] ^ 16, *value[at + 1 :]]) for at in (0, len(value) // 2, len(value) - 1)
            )
        case _:
            yield from (None, "", 0, f"{value} ", f" {value}", value[:-1], value.encode())
            for at in range(0, len(value), 3 if len(value) > 100 else 1):
                old = value[at]
                new = str((int(old) + 1) % 10) if old.isdigit() else old.swapcase() if old.isalpha() else "T"
                yield f"{value[:at]}{new}{value[at + 1 :]}"


@pytest.mark.slow
@pytest.mark.parametrize("table", ["events", "leaves", "snapshots"])
def test_one_changed_value_anywhere_in_a_database_is_found(table: str, small: Path, tmp_path: Path) -> None:
    """The columns *workflow* and *pool* of events are not part of the log: they say again what the actions say, for queries."""
    passed, copy = list[object](), tmp_path / "copy.db"
    shutil.copy(small, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        cursor = connection.execute(f"SELECT rowid, * FROM {table}")
        columns, rows = [each for each, *_ in cursor.description if each not in ("workflow", "pool")], cursor.fetchall()
        for id, name in product([row[0] for row in rows], columns[1:]):
            at = f"FROM {table} WHERE rowid = {id}"
            ((was,),) = connection.execute(f"SELECT {name} {at}")
            for new in others(was):
                change = f"UPDATE OR IGNORE {table} SET {name} = ? WHERE rowid = {id}"
                with suppress(sqlite3.IntegrityError):
                    connection.execute(change, (new,))
                ((now,),) = connection.execute(f"SELECT {name} {at}")
                if (type(now), now) != (type(was), was) and is_accepted(copy):
                    passed.append((id, name, was, now))
                connection.execute(change, (was,))
    assert passed == []
    assert is_accepted(copy)


def is_accepted(database: Path) -> bool:
    try:
        return said(database)[0] == 0
    except Unreadable:
        return False


def test_log_rewritten_with_a_chain_of_its_own_is_found_only_by_the_head(database: Path, tmp_path: Path) -> None:
    noted, forged = head_of(database), tmp_path / "forged.jsonl"
    first, *lines, last = map(json.loads, exported(database).splitlines())
    chain, kept = Chain(), list[list[object]]()
    for revision in sorted({line[0] for line in lines}):
        own = [line for line in lines if line[0] == revision]
        if revision >= 4:
            own[0][3] = "mallory"
        events = [event_of(dumps(line)) for line in own]
        chain.take(revision, events)
        chain.last = chain.whole
        kept += [event._replace(hash=b"").line() for event in events[:-1]]
        kept.append(events[-1]._replace(hash=chain.whole).line())
    forged.write_text("".join(f"{dumps(each)}\n" for each in (first, *kept, last)))
    assert said(forged)[0] == 0
    code, found = said(forged, noted)
    assert (code, len(found)) == (1, 2)
    assert f"chain: no commit has the hash {noted}. The log was rewritten, or it is a different log" in found[0]


def test_retention_leaves_the_chain_intact(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        for at in range(3):
            server.submit(f"w{at}", "pool1", duration=10.0)
            server.later(60)
        before, events = head_of(tmp_path / "runrig.db"), len(server.store.log.events())
        ids = server.store.retention.expired(server.time[0] + DAY, 2)
        server.store.retention.prune(ids, 1000)
        while server.store.retention.prune_events(3).rows:
            assert head_of(tmp_path / "runrig.db") == before
        assert len(server.store.log.events()) < events - 10
        server.submit("after", "pool1")
        write_backup(tmp_path / "runrig.db", tmp_path / "none", tmp_path / "a.backup", log_files=False)
        (tmp_path / "events.jsonl").write_text(exported(tmp_path / "runrig.db"))
    assert exported(tmp_path / "a.backup") == (tmp_path / "events.jsonl").read_text()
    assert said(tmp_path / "events.jsonl", before)[0] == 0
    run(tmp_path / "runrig.db", "UPDATE leaves SET leaf = zeroblob(32) WHERE seq = 0")
    assert said(tmp_path / "runrig.db")[0] == 1


def test_a_workflow_may_start_after_one_that_retention_deleted_from_the_log(tmp_path: Path) -> None:
    """Rule W5: retention deletes how the other one ended as well."""
    with desk(tmp_path) as server:
        submissions = server.service.submissions
        first = server.submit("first", duration=10.0)
        waits = server.submit("waits", text=one_task("waits").replace("  tasks:", f"  after: [{first}]\n  tasks:", 1))
        do(server.service, submissions.holding(waits, user="ann"))
        server.later(0)
        server.later(60)
        server.store.retention.prune([first], 1000)
        while server.store.retention.prune_events(3).rows:
            pass
        server.submit("other")  # The first event after a gap is not checked.
        do(server.service, submissions.releasing(waits, user="ann"))
        server.later(0)
        assert server.status(waits) == "RUNNING"
    lines: list[str] = []
    assert check(str(tmp_path / "runrig.db"), since=0, laws=["W5"], head="", as_json=False, say=lines.append) == 0, (
        lines
    )


def test_chain_of_an_old_log_begins_after_the_upgrade(database: Path, tmp_path: Path) -> None:
    run(database, "UPDATE events SET hash = NULL")
    assert said(database)[1][-1].endswith("; no chain of hashes")
    with closing(sqlite3.connect(database)) as connection:
        ((revision,),) = connection.execute("SELECT revision FROM meta")
        ((time,),) = connection.execute("SELECT unixepoch(max(time)) FROM events")
    shutil.copy(database, tmp_path / "runrig.db")
    with desk(tmp_path, time=time + 1.0) as server:
        server.submit("new", "pool1")
        server.later(1)
    code, lines = said(tmp_path / "runrig.db")
    assert code == 0
    assert f"; chain from revision {revision + 1} unbroken to " in lines[-1]
    run(tmp_path / "runrig.db", f"UPDATE events SET hash = NULL WHERE revision = {revision + 1}")
    assert said(tmp_path / "runrig.db")[0] == 1


def test_invalid_hash_is_refused(database: Path) -> None:
    from runrig.verify.verify import known_hash

    assert known_hash("") == ""
    with pytest.raises(
        Unreadable, match=r"^'3F' is not a hash. Copy the 64 digits from the last line of an earlier run$"
    ):
        known_hash("3F")


def test_the_log_marks_the_end_of_a_complete_cycle(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        server.submit("one", "pool1")
        server.later(5)
        server.later(7)
        quiet = server.time[0]
        before = server.revision
        server.submit("two", "pool1")
        server.submit("three", "pool1")
    with closing(sqlite3.connect(tmp_path / "runrig.db")) as connection:
        said = connection.execute(
            "SELECT revision, about FROM events WHERE about IS NOT NULL ORDER BY revision"
        ).fetchall()
    assert (said[0][0], json.loads(said[0][1])) == (1, {"laws": 1})
    assert [(at, json.loads(about)) for at, about in said if at > before] == [
        (before + 1, {"rest": round(quiet * 1e6)})
    ]


def test_facts_that_a_commit_records_about_itself_cannot_be_changed(database: Path) -> None:
    run(database, "UPDATE events SET about = NULL WHERE revision = 1")
    assert said(database)[1][0] == "revision 1, chain: this commit or an earlier one was changed"
    run(database, "UPDATE events SET about = '{ }' WHERE revision = 1 AND hash IS NOT NULL")
    assert said(database)[1][0] == "revision 1, chain: this commit or an earlier one was changed"


def test_a_store_that_commits_in_turns_continues_the_chain(tmp_path: Path) -> None:
    """Another server's commits are in the chain too, although this one does not remember them."""
    with desk(tmp_path) as first:
        first.submit("one", "pool1")
        head = head_of(tmp_path / "runrig.db")
    assert START.hex() != head
    SqlStore.open(tmp_path / "runrig.db").close()
    with desk(tmp_path, time=first.time[0]) as second:
        second.submit("two", "pool1")
    assert said(tmp_path / "runrig.db", head)[0] == 0
