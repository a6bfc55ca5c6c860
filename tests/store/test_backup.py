"""A backup is one moment of a server that goes on; what is restored from it is that moment, on either database."""

import gzip
import os
import re
import sqlite3
import stat
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select, update

from runrig.backends.local.owners import own, owner_of
from runrig.domain.errors import Conflict, InvalidInput, NotFound, RunrigError, ServerFault, Unavailable
from runrig.domain.gangs import Priority
from runrig.domain.notices import When
from runrig.domain.records import Said
from runrig.store import SqlStore, schema
from runrig.store.backup import BackupWriter
from runrig.store.schema import HEAD
from runrig.wiring.backup import check_backup, restore_backup, write_backup
from tests.patience import PATIENCE_S
from tests.replaying import replayed
from tests.store.backups import busy, everything, some_users
from tests.stores import KINDS, store_url
from tests.worlds.service import Desk, desk


def filled(it: Desk) -> None:
    """Something in every table."""
    some_users(it)
    it.service.subpools.create("pool1", "a", 1, user="ann")
    for number in range(3):
        it.submit(f"low{number}", priority=Priority.LOW, duration=100)
    it.later(0)
    it.submit("firm", pool="pool2", gpus=2, priority=Priority.HIGH)
    it.later(0)
    it.later(5)
    it.service.submissions.tag("low0-1", add=("paper",), remove=())
    said = Said("for the deadline", ("june",))
    pool = it.service.queries.pool("pool1").pool
    it.service.declarations.put_pools([(replace(pool, description="ours"), None)], user="ann", said=said)
    it.service.access.set_profile("ann", {"pool": "pool2", "slack_notification": True})
    it.later(7200)
    it.submit("later", pool="pool2")
    it.service.usage.step()
    it.service.notices.set("ann", "https://hooks.example.org/", (When.FAIL,), 600, 1)
    it.store.snapshots.take()


@pytest.mark.parametrize("to", KINDS)
def test_backup_under_load_is_the_state_at_its_revision(tmp_path: Path, any_store: str, to: str) -> None:
    with desk(tmp_path / "old", database=any_store) as it, store_url(to, tmp_path / "new") as target:
        with busy(it) as accepted:
            reached = threading.Event()
            with it.service.listening(lambda _: reached.set() if len(accepted) > 30 else None):
                assert reached.wait(PATIENCE_S)
            before = it.store.load().revision
            found = write_backup(any_store, tmp_path / "none", tmp_path / "out", log_files=True)
            while it.store.load().revision < found.header.revision + 20:
                reached.wait(0.01)
        assert found.header.revision >= before
        assert found == check_backup(tmp_path / "out")
        assert restore_backup(tmp_path / "out", target, tmp_path / "restored") == found
        restored = SqlStore.look(target)
        assert restored.load() == replayed(it.store, found.header.revision).rows()
        assert restored.load() == replayed(restored, found.header.revision).rows()
        log = [event for event in it.store.log.events() if event.revision <= found.header.revision]
        assert [*restored.log.events()] == log
        restored.close()


@pytest.mark.parametrize("to", KINDS)
def test_restored_tables_are_equal(tmp_path: Path, any_store: str, to: str) -> None:
    with desk(tmp_path / "old", database=any_store) as it, store_url(to, tmp_path / "new") as target:
        filled(it)
        write_backup(any_store, tmp_path / "none", tmp_path / "out", log_files=True)
        restore_backup(tmp_path / "out", target, tmp_path / "restored")
        restored = SqlStore.look(target)
        was = everything(it.store)
        assert [row[-1] for row in was["credentials"]] != [""]
        was["credentials"] = [(*row[:-1], "") for row in was["credentials"]]  # encrypted values are not copied
        assert everything(restored) == was
        assert {name for name, rows in was.items() if not rows} <= {
            "leaves",
            "past_numbers",
            "pruned",
            "grants",
            "cohorts",
            "secrets",
            "limits",
            "spent",
        }
        write_backup(target, tmp_path / "none", tmp_path / "again", log_files=True)
        assert lines(tmp_path / "again") == lines(tmp_path / "out")
        restored.close()


def lines(file: Path) -> list[bytes]:
    """Returns the lines of all tables but `meta`, whose epoch goes on."""
    found = gzip.decompress(file.read_bytes()).splitlines()
    meta = next(index for index, line in enumerate(found) if b'"table":"meta"' in line)
    return [*found[1:meta], *found[meta + 2 : -1]]


def test_restored_server_continues(tmp_path: Path, any_store: str) -> None:
    with store_url("sqlite", tmp_path / "new") as target:
        with desk(tmp_path / "old", database=any_store) as it:
            filled(it)
            write_backup(any_store, tmp_path / "old", tmp_path / "out", log_files=True)
            now = it.time[0]
        restore_backup(tmp_path / "out", target, tmp_path / "new" / "data")
        with desk(tmp_path / "new" / "data", database=target, time=now) as it:
            assert it.submit("low0", duration=1) == "low0-2"
            it.later(0)
            it.later(500)
            it.later(500)
            assert {it.status(id) for id in ("low0-1", "low1-1", "low2-1", "firm-1", "low0-2")} == {"COMPLETED"}


def test_epoch_never_decreases(tmp_path: Path) -> None:
    with (
        store_url("sqlite", tmp_path / "old") as url,
        store_url("sqlite", tmp_path / "new") as target,
        desk(tmp_path / "sim", database=url) as it,
    ):
        write_backup(url, tmp_path / "none", tmp_path / "out", log_files=True)
        assert it.store.load().revision > 0
        store = SqlStore.open(target)
        with store.transactions.writing() as connection:
            connection.execute(update(schema.meta).values(epoch=7))
        store.close()
        restore_backup(tmp_path / "out", target, tmp_path / "restored")
        store = SqlStore.look(target)
        with store.transactions.reading() as connection:
            assert connection.execute(select(schema.meta.c.epoch)).scalar_one() == 8
        store.close()


# ---------------------------------------------------------------- refusals


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    with desk(tmp_path / "made") as it:
        filled(it)
        write_backup(tmp_path / "made" / "runrig.db", tmp_path / "none", tmp_path / "made.backup", log_files=True)
    return tmp_path / "made.backup"


def refused(file: Path, url: str) -> RunrigError:
    """The error; and the database is as it was."""
    store = SqlStore.open(url)
    before = (everything(store), store.load())
    store.close()
    with pytest.raises(RunrigError) as caught:
        restore_backup(file, url, file.with_name("restored"))
    store = SqlStore.look(url)
    assert (everything(store), store.load()) == before
    store.close()
    return caught.value


def test_restore_into_a_database_that_is_not_empty_is_refused(tmp_path: Path, any_store: str, backup: Path) -> None:
    with desk(tmp_path, database=any_store) as it:
        it.submit("a")
    error = refused(backup, any_store)
    assert isinstance(error, Conflict)
    assert "is not empty (it is at revision 3)" in error.message


def test_restore_into_a_database_of_another_program_is_refused(tmp_path: Path, backup: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE notes (text)")
    with pytest.raises(Conflict, match="it has the table 'notes'"):
        restore_backup(backup, tmp_path / "other.db", tmp_path / "restored")


def test_restore_while_a_server_runs_is_refused(tmp_path: Path, any_store: str, backup: Path) -> None:
    with desk(tmp_path, database=any_store):
        error = refused(backup, any_store)
    assert isinstance(error, (ServerFault, Unavailable))
    assert "is in use by the server with process id" in error.message


@pytest.mark.parametrize("harm", ["cut", "cut at a line", "changed", "a row less", "more behind it", "empty"])
def test_damaged_file_is_refused(any_store: str, backup: Path, harm: str) -> None:
    whole = backup.read_bytes()
    plain = gzip.decompress(whole).splitlines(keepends=True)
    harmed = {
        "cut": whole[: len(whole) // 2],
        "cut at a line": gzip.compress(b"".join(plain[:-1])),
        "changed": gzip.compress(b"".join(plain).replace(b"pool1", b"pool9")),
        "a row less": gzip.compress(b"".join([*plain[:3], *plain[4:]])),
        "more behind it": gzip.compress(b"".join([*plain, b"[1]\n"])),
        "empty": b"",
    }[harm]
    assert harmed != whole
    backup.write_bytes(harmed)
    error = refused(backup, any_store)
    assert isinstance(error, InvalidInput)
    assert "is damaged (" in error.message or "is not a backup" in error.message


def test_every_damaged_byte_is_detected(backup: Path) -> None:
    whole = bytearray(backup.read_bytes())
    content = gzip.decompress(whole)
    for position in range(10, len(whole), 97):
        harmed = bytearray(whole)
        harmed[position] ^= 0x10
        backup.write_bytes(harmed)
        if not is_refused(backup):
            assert gzip.decompress(harmed) == content  # between two blocks gzip has bits that mean nothing


def is_refused(path: Path) -> bool:
    try:
        check_backup(path)
    except InvalidInput as error:
        return re.search(r"damaged|no backup|newer|other columns", error.message) is not None
    return False


@pytest.mark.parametrize("text", [b"workflow: {}\n", b'{"a": 1}\n', b"[]\n", b"\x00\x01"])
def test_other_file_is_refused(tmp_path: Path, text: bytes) -> None:
    for number, content in enumerate((text, gzip.compress(text))):
        file = tmp_path / str(number)
        file.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"is not a backup|damaged"):
            check_backup(file)


@pytest.mark.parametrize(("is_now", "said"), [("0999", "newer runrig"), ("0001", "Restore it with that")])
def test_file_of_another_version_is_refused(backup: Path, is_now: str, said: str) -> None:
    text = gzip.decompress(backup.read_bytes()).decode()
    backup.write_bytes(gzip.compress(text.replace(f'"tables":"{HEAD}"', f'"tables":"{is_now}"').encode()))
    with pytest.raises(InvalidInput, match=said):
        check_backup(backup)


def test_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match=r"pipe cannot be read \(Not a regular file\)"):
        check_backup(tmp_path / "pipe")


def test_missing_database_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Use the database of a server"):
        write_backup(tmp_path / "no" / "runrig.db", tmp_path / "none", tmp_path / "out", log_files=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "also"), [("0001", ", or start this version on it once to migrate it"), ("9999", "")]
)
def test_database_of_another_version_is_unchanged(tmp_path: Path, version: str, also: str) -> None:
    with desk(tmp_path / "made"):
        pass
    with closing(sqlite3.connect(tmp_path / "made" / "runrig.db", isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
    said = f"has schema {version}, but this version of runrig needs {HEAD}. Use the version that wrote it{also}$"
    with pytest.raises(ServerFault, match=said):
        write_backup(tmp_path / "made" / "runrig.db", tmp_path / "none", tmp_path / "out", log_files=True)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    with desk(tmp_path):
        (tmp_path / "out").write_text("mine")
        with pytest.raises(Conflict, match="already exists"):
            write_backup(tmp_path / "runrig.db", tmp_path / "none", tmp_path / "out", log_files=True)
    assert (tmp_path / "out").read_text() == "mine"


def test_failed_backup_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BackupWriter, "end", full)
    with desk(tmp_path / "made"), pytest.raises(ServerFault, match="No space left on device"):
        write_backup(tmp_path / "made" / "runrig.db", tmp_path / "none", tmp_path / "out", log_files=True)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


# ---------------------------------------------------------------- files


def test_output_of_tasks_is_included_unless_excluded(tmp_path: Path) -> None:
    with desk(tmp_path / "old"):
        folder = tmp_path / "old" / "tasks" / "a-1" / "main" / "0"
        folder.mkdir(parents=True)
        printed = bytes(range(256)) * 1000
        (folder / "stdout.log").write_bytes(printed)
        (folder / "stderr.log").write_bytes(b"")
        (folder / "order").write_bytes(b"1 0 0\n")
        (folder / "launch").write_bytes(b"secret")
        (folder / "stdlink.log").symlink_to("/etc/passwd")
        (tmp_path / "old" / "token").write_text("secret")
        write_backup(tmp_path / "old" / "runrig.db", tmp_path / "old", tmp_path / "all", log_files=True)
        write_backup(tmp_path / "old" / "runrig.db", tmp_path / "old", tmp_path / "less", log_files=False)
        clock = (tmp_path / "old" / "clock.json").read_text()
    restore_backup(tmp_path / "all", tmp_path / "new" / "runrig.db", tmp_path / "new")
    restore_backup(tmp_path / "less", tmp_path / "bare" / "runrig.db", tmp_path / "bare")
    restored = tmp_path / "new" / "tasks" / "a-1" / "main" / "0"
    assert sorted(path.name for path in restored.iterdir()) == ["order", "stderr.log", "stdout.log"]
    assert (restored / "stdout.log").read_bytes() == printed
    assert (tmp_path / "new" / "clock.json").read_text() == clock
    assert not (tmp_path / "new" / "token").exists()
    assert not (tmp_path / "bare" / "tasks").exists()
    assert stat.S_IMODE((restored / "stdout.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "all").stat().st_mode) == 0o600


def test_leftovers_in_the_data_folder_are_moved_aside_and_no_output_is_overwritten(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with desk(old) as it:
        ids = [it.submit(name, duration=100) for name in ("same", "other", "earlier", "gone")]
        for id in ids:
            _print(old / "tasks" / id, "as in the backup")
        uuids = {id: it.store.workflow(id).workflow.uuid for id in ids}
        write_backup(old / "runrig.db", old, tmp_path / "out", log_files=True)
    _print(new / "tasks/same-1", "as in the backup, and more", uuids["same-1"])
    _print(new / "tasks/other-1", "of another", "another")
    _print(new / "tasks/earlier-1", "of an earlier version")
    _print(new / "tasks/unknown-1", "of nobody in the backup", "another")
    _print(new / "tasks/alive-1", "goes on", "another")
    (new / "live/boot").mkdir(parents=True)
    (new / "live/boot/alive-1:main:0").touch()
    moved: list[Path] = []
    restore_backup(tmp_path / "out", new / "runrig.db", new, moved.extend)
    assert moved == [new / "aside/other-1.1", new / "aside/unknown-1.1"]
    assert {folder.name: _printed(folder) for folder in (new / "tasks").iterdir()} == {
        "same-1": ("as in the backup, and more", uuids["same-1"]),
        "other-1": ("as in the backup", uuids["other-1"]),
        "earlier-1": ("of an earlier version", None),
        "gone-1": ("as in the backup", uuids["gone-1"]),
        "alive-1": ("goes on", "another"),
    }
    assert [_printed(folder) for folder in moved] == [("of another", "another"), ("of nobody in the backup", "another")]


def _print(folder: Path, text: str, uuid: str | None = None) -> None:
    """What a workflow leaves in its folder; *uuid*: whose that is, None: it does not say."""
    (folder / "main/0").mkdir(parents=True)
    (folder / "main/0/stdout.log").write_text(text)
    if uuid is not None:
        own(folder.parent, folder.name, uuid)


def _printed(folder: Path) -> tuple[str, str | None]:
    return (folder / "main/0/stdout.log").read_text(), owner_of(folder.parent, folder.name)


@pytest.mark.parametrize("path", ["../out", "/etc/x", "token", "tasks/../../x/0/std.log", "tasks/a/b/0/launch"])
def test_file_with_an_invented_path_is_not_written(tmp_path: Path, path: str) -> None:
    with (
        desk(tmp_path / "old") as it,
        (tmp_path / "out").open("wb") as stream,
        it.store.transactions.reading() as connection,
    ):
        writer = BackupWriter(stream, connection, version="0.1.0", taken_at="now")
        writer.tables()
        writer.file(path, [b"x"])
        writer.end()
    with pytest.raises(InvalidInput, match="unexpected file"):
        restore_backup(tmp_path / "out", tmp_path / "new" / "runrig.db", tmp_path / "new")
    assert not (tmp_path / "new").exists()
