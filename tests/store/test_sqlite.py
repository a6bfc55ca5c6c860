"""What can happen to a file: it cannot be written, is no database, belongs to another, is damaged, or its server dies."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from runrig.domain.errors import RunrigError, ServerFault, Unavailable
from runrig.store import SqlStore, lock
from runrig.store.columns import UtcDateTime
from runrig.store.faults import fault
from runrig.store.lock import DataLock

from .strategies import TIMES
from .values import DONE, fill, put
from .values import commit as make_commit

NOBODY = 65534


def refusal(path: Path | str, *, exclusive: bool = False) -> str:
    with pytest.raises(ServerFault) as refused:
        SqlStore.open(path, exclusive=exclusive)
    return refused.value.message


def filled(path: Path) -> Path:
    store = SqlStore.open(path)
    fill(store)
    store.close()
    return path


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root may write everywhere: for once, be somebody who may not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


# ---------------------------------------------------------------- names


def test_path_and_its_url_are_the_same_database(tmp_path: Path) -> None:
    path = filled(tmp_path / "deep" / "down" / "runrig.db")
    for name in (str(path), f"sqlite:///{path}"):
        store = SqlStore.open(name)
        assert store.load().revision == 5
        store.close()


def test_created_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = SqlStore.open(folder / "runrig.db", exclusive=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    store.close()
    assert modes == {
        "data": 0o700,
        "runrig.db": 0o600,
        "runrig.db-shm": 0o600,
        "runrig.db-wal": 0o600,
        "runrig.db.lock": 0o600,
    }


# ---------------------------------------------------------------- unusable files


@pytest.mark.parametrize("exclusive", [False, True])
def test_unwritable_folder_is_reported_with_a_way_out(exclusive: bool) -> None:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        path = Path(folder) / "runrig.db"
        with as_ordinary_user():
            assert refusal(path, exclusive=exclusive) == (
                f"the database {path} cannot be created (Permission denied). Grant the server's user write permission on its "
                "folder, or choose another data folder"
            )
        assert not path.exists()


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Mounts a small disk at *folder*, on which there is no room left once this begins its work."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine mounts no file systems for us")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(folder: Path) -> None:
    for size in (4096, 1):
        with suppress(OSError), (folder / f"filler-{size}").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * size)


@pytest.mark.parametrize("there", [True, False])
def test_start_on_a_full_disk_reports_that_it_is_full(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "runrig.db"
    with full_disk(tmp_path):
        if there:
            filled(path)
        fill_up(tmp_path)
        assert refusal(path, exclusive=True) == (
            f"the disk of the database {path} is full, so nothing was stored. Free some space and try again"
        )
        for filler in tmp_path.glob("filler-*"):
            filler.unlink()
        SqlStore.open(path, exclusive=True).close()


def test_unwritable_file_is_reported_with_a_way_out() -> None:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = filled(Path(folder) / "runrig.db")
        os.chmod(path, 0o444)
        with as_ordinary_user():
            message = refusal(path)
        assert message.startswith(f"the database {path} cannot be ")
        assert "Grant the server's user write permission on" in message
        assert message.endswith("or choose another data folder")


def test_path_through_a_file_or_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "runrig.db", tmp_path / "file" / "deep" / "runrig.db"):
        assert f"cannot be created ({path.parent} is not a folder)" in refusal(path)
    assert (
        refusal(tmp_path)
        == f"the database {tmp_path} is not a regular file. Move it away, or choose another data folder"
    )


def test_file_that_is_not_a_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "runrig.db"
    path.write_text("dear diary, " * 1000)
    assert refusal(path) == (
        f"the database {path} is not a database. Restore a backup with `runrig restore` into an empty folder, or start from scratch "
        "in another data folder"
    )
    assert path.read_text() == "dear diary, " * 1000


def test_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "runrig.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
        assert refusal(path) == (
            f"the database {path} belongs to another program (it has the table 'songs'). "
            "Move it away to start from scratch, or choose another data folder"
        )
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]


def test_damaged_times_of_one_workflow_stop_no_commit(tmp_path: Path) -> None:
    """Kept sums read the old row in the transaction that changes it."""
    path = filled(tmp_path / "runrig.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE workflows SET times = '{xx' WHERE id = ?", (DONE.id,))
        connection.commit()
    with closing(SqlStore.open(path)) as store:
        make_commit(store.load().revision + 1, (), put(DONE)).to(store)
        assert store.workflow(DONE.id).workflow == DONE


def test_damaged_database_is_reported_with_a_way_out(tmp_path: Path) -> None:
    path = filled(tmp_path / "runrig.db")
    whole = path.read_bytes()
    # The header remains: only the pages after the first ones are damaged.
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(ServerFault, match=rf"the database {path} is damaged .*\. Restore a backup"):
        SqlStore.open(path).load()
    assert re.match(rf"the database {path} is damaged .*\. Restore a backup", refusal(path, exclusive=True))


def test_damage_in_pages_that_no_start_reads_is_found_at_the_start(tmp_path: Path) -> None:
    whole = filled(tmp_path / "runrig.db").read_bytes()
    with closing(sqlite3.connect(tmp_path / "runrig.db")) as connection:
        pages = [row[0] for row in connection.execute("SELECT pageno FROM dbstat WHERE name = 'events'")]
    for page in pages:
        path = tmp_path / f"{page}.db"
        path.write_bytes(whole[: (page - 1) * 4096] + bytes(range(256)) * 16 + whole[page * 4096 :])
        assert "is damaged" in refusal(path, exclusive=True)


@pytest.mark.parametrize(
    "edit",
    ["UPDATE pools SET queueing = 'GREAT'", "UPDATE nodes SET resources = '[1]'", "UPDATE nodes SET resources = '{'"],
)
def test_manual_changes_cause_no_stack_trace(tmp_path: Path, edit: str) -> None:
    path = filled(tmp_path / "runrig.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(edit)
        connection.commit()
    store = SqlStore.open(path)
    with pytest.raises(ServerFault, match=r"contains data that this version cannot read \(.*\)\. Restore a backup"):
        store.load()
    store.close()


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("SQLITE_FULL", ServerFault, "the disk of X is full, so nothing was stored. Free some space and try again"),
        ("SQLITE_BUSY_SNAPSHOT", Unavailable, "another process has locked X. Stop it, or try again later"),
        ("SQLITE_IOERR_WRITE", ServerFault, "the disk of X failed (oh), so nothing was stored. Check the system log"),
        ("", ServerFault, "X failed (oh), so nothing was stored"),
    ],
)
def test_errors_of_the_machine_become_sentences(code: str, kind: type[RunrigError], words: str) -> None:
    error = sqlite3.OperationalError("oh")
    error.sqlite_errorname = code
    assert (type(fault(error, "X")), fault(error, "X").message) == (kind, words)


# ---------------------------------------------------------------- one server at a time


def test_second_server_is_refused_with_the_holder_of_the_database(tmp_path: Path) -> None:
    path = tmp_path / "runrig.db"
    first = SqlStore.open(path, exclusive=True)
    since = json.loads((tmp_path / "runrig.db.lock").read_text())["since"]
    assert refusal(path, exclusive=True) == (
        f"the database {path} is in use by the server with process id {os.getpid()} on {socket.gethostname()} since {since}. "
        "Stop that server, or choose another data folder"
    )
    first.close()
    SqlStore.open(path, exclusive=True).close()


def test_server_that_could_not_open_the_database_holds_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "runrig.db"
    path.write_text("no database " * 1000)
    refusal(path, exclusive=True)
    path.unlink()
    SqlStore.open(path, exclusive=True).close()


KILLED_WHILE_IT_STARTED_A_CHILD = """
import os, signal, subprocess, sys
from pathlib import Path
from runrig.store import lock
lock.DataLock(Path(sys.argv[1]), "it")
print(os.getpid(), subprocess.Popen(["sleep", sys.argv[2]], pass_fds=lock._held, stdout=subprocess.DEVNULL).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def killed_with_a_child(path: Path, seconds: float) -> Iterator[int]:
    """The process id of a dead holder of the lock *path*, whose child shares the lock for *seconds*."""
    command = [sys.executable, "-c", KILLED_WHILE_IT_STARTED_A_CHILD, str(path), str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    holder, child = map(int, done.stdout.split())
    yield holder
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def test_child_of_a_killed_server_blocks_the_next_one_only_briefly(tmp_path: Path) -> None:
    with killed_with_a_child(tmp_path / "lock", 0.3):
        DataLock(tmp_path / "lock", "it").release()


def test_wait_for_the_lock_of_a_killed_server_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "INHERITED_S", 0.1)
    with killed_with_a_child(tmp_path / "lock", 60) as holder, pytest.raises(ServerFault, match=f"process id {holder}"):
        DataLock(tmp_path / "lock", "it")


# ---------------------------------------------------------------- details


DIALECT = SQLiteDialect()


@given(time=TIMES)
def test_time_is_read_back_unchanged(time: float) -> None:
    column = UtcDateTime()
    stored = column.process_bind_param(time, DIALECT)
    assert stored is not None
    assert column.process_result_value(stored, DIALECT) == time
    assert column.process_result_value(stored.replace(tzinfo=None), DIALECT) == time


@given(times=st.lists(TIMES, min_size=2, max_size=2, unique=True))
def test_times_sort_in_the_database_as_they_do_in_python(times: list[float]) -> None:
    first, second = sorted(times)
    texts = [f"{UtcDateTime().process_bind_param(time, DIALECT):%Y-%m-%d %H:%M:%S.%f}" for time in (first, second)]
    assert texts == sorted(texts)


def test_list_and_logs_are_read_through_an_index(tmp_path: Path) -> None:
    path = filled(tmp_path / "runrig.db")
    questions = {
        "SELECT * FROM events WHERE workflow = 'w' AND revision > 3 ORDER BY revision, seq": "ix_events_workflow_revision_seq",
        "SELECT * FROM events WHERE pool = 'p' AND revision > 3 ORDER BY revision, seq": "ix_events_pool_revision_seq",
        "SELECT * FROM workflows ORDER BY submit_time DESC LIMIT 9": "ix_workflows_submit_time",
        "SELECT * FROM workflows WHERE pool = 'p' ORDER BY submit_time DESC LIMIT 9": "ix_workflows_pool_submit_time",
        "SELECT * FROM workflows WHERE submitted_by = 'u' ORDER BY submit_time DESC": "ix_workflows_submitted_by_submit_time",
        "SELECT * FROM workflows WHERE status IN ('RUNNING')": "ix_workflows_status_",
    }
    with closing(sqlite3.connect(path)) as connection:
        for question, index in questions.items():
            plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}"))
            assert f"USING INDEX {index}" in plan
            assert "TEMP B-TREE" not in plan


def test_reader_neither_waits_for_a_writer_nor_sees_partial_work(tmp_path: Path) -> None:
    path = filled(tmp_path / "runrig.db")
    store = SqlStore.open(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE meta SET revision = 6")
        assert store.load().revision == 5
        writer.execute("COMMIT")
    assert store.load().revision == 6
    make_commit(7, (), put(DONE)).to(store)
    store.close()


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("UPDATE workflows SET status = 'RUNNIOG' WHERE id = (SELECT min(id) FROM workflows)", "invalid status"),
        ("UPDATE tasks SET retry_id = 'x' WHERE rowid = 1", "invalid retry_id"),
        ("UPDATE workflows SET submit_time = 'soon'", "invalid submit_time"),
        ("UPDATE gangs SET pod_sets = '[{'", "invalid pod_sets"),
        ("UPDATE nodes SET ready = 7", "invalid ready"),
        ("INSERT INTO limits (user, gpus) VALUES ('cy', 0)", "table limits, row cy: invalid gpus"),
        ("INSERT INTO limits (user, waiting) VALUES ('cy', -1)", "table limits, row cy: invalid waiting"),
        ("INSERT INTO limits (user, gpus) VALUES ('', 8)", "table limits, row : invalid user"),
        ("INSERT INTO limits (user, budget) VALUES ('cy', 0)", "table limits, row cy: invalid budget"),
        ("UPDATE pools SET budget = 0", "invalid budget"),
        ("UPDATE pools SET user_gpus = -1", "invalid user_gpus"),
        ("DELETE FROM specifications", "it refers to a missing row of specifications"),
        ("DELETE FROM groups", "it refers to a missing row of groups"),
    ],
)
def test_rows_that_no_server_writes_are_found_at_the_start(tmp_path: Path, edit: str, says: str) -> None:
    path = filled(tmp_path / "runrig.db")
    SqlStore.open(path, exclusive=True).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(edit)
    message = refusal(path, exclusive=True)
    assert message.startswith(f"the database {path} is damaged (table ")
    assert says in message
