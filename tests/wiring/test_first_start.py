"""An empty database is a first start only where nothing says that there was one before."""

import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import inspect

from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.errors import ServerFault
from runrig.store import SqlStore
from runrig.store.election import election
from runrig.wiring.port import LOOPBACK, bound
from runrig.wiring.process import _FILES, data_folder, first_start, keep_backend, note_database
from runrig.wiring.up import _token
from tests.backends.local.launches import alive
from tests.patience import until
from tests.stores import KINDS, store_url
from tests.worlds.command_line import ended, runrig, up, written

ELSEWHERE = "choose another folder with --data"


@pytest.mark.parametrize("kind", KINDS)
def test_empty_database_is_refused_where_another_was_used_and_gets_no_tables(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with (
        store_url(kind, tmp_path / "one", tables=False) as first,
        store_url(kind, tmp_path / "two", tables=False) as second,
    ):
        for url in (first, first):  # it is not empty the second time
            term = election(url).take()
            term.open(first_start(folder, ELSEWHERE))
            term.close()
            note_database(folder)
        term = election(second).take()
        with pytest.raises(ServerFault, match=r"is empty, but data folder .* was used with a database before"):
            term.open(first_start(folder, ELSEWHERE))
        term.close()
        look = SqlStore.look(second)
        with look.transactions.reading() as connection:
            assert inspect(connection).get_table_names() == []
        look.close()


@pytest.mark.parametrize("left", ["had-database", "live", "token", "tasks.json", "leader.json", "accepted-clock"])
def test_leftovers_of_any_server_show_that_there_was_a_database(tmp_path: Path, left: str) -> None:
    (tmp_path / left).touch()
    path = tmp_path / "runrig.db"
    with pytest.raises(ServerFault) as refused:
        SqlStore.open(path, exclusive=True, when_empty=first_start(tmp_path, ELSEWHERE))
    assert refused.value.message == (
        f"the database {path} is empty, but data folder {tmp_path} was used with a database before (it has {left}): restore a "
        f"backup with `runrig restore`, or, to start from scratch, {ELSEWHERE}"
    )


@pytest.mark.parametrize("name", ["server.log", "runrig.db.lock", "backend", "cluster.yaml"])
def test_other_files_in_a_new_data_folder_do_no_harm(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    SqlStore.open(tmp_path / "runrig.db", exclusive=True, when_empty=first_start(tmp_path, ELSEWHERE)).close()


@pytest.mark.parametrize("text", [b"\0\0", b"\xff"], ids=["zeros", "no text"])
def test_damaged_file_of_an_earlier_start_is_named(tmp_path: Path, text: bytes) -> None:
    starts: dict[str, Callable[[], object]] = {
        "backend": lambda: keep_backend(tmp_path, "local", ELSEWHERE),
        "token": lambda: _token(tmp_path),
        "clock.json": lambda: SimulatedClock(1.0, tmp_path),
        "tasks.json": lambda: SimulatedBackend((), SimulatedClock(), tmp_path),
    }
    for name, start in starts.items():
        (tmp_path / name).write_bytes(text)
        with pytest.raises(ServerFault, match=f"{tmp_path / name} is damaged"):
            start()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_not_a_regular_file_is_refused_and_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    starts: dict[str, Callable[[], object]] = {name: lambda: data_folder(tmp_path, ELSEWHERE) for name in _FILES}
    starts["runrig.db"] = lambda: SqlStore.open(tmp_path / "runrig.db", exclusive=True)
    for name, start in starts.items():
        make(tmp_path / name)
        with pytest.raises(ServerFault, match=f"{name}.* is not a regular file. Move it away, or choose another"):
            start()
        shutil.move(tmp_path / name, tmp_path / "away")


# ---------------------------------------------------------------- the port


def test_port_in_use_is_refused_with_a_way_out() -> None:
    with socket.create_server((LOOPBACK, 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(ServerFault) as refused:
            bound(LOOPBACK, port, "choose another with --port (0 picks a free one)")
    assert refused.value.message == (
        f"cannot listen on port {port} of 127.0.0.1 (Address already in use). Stop the program that uses it, or choose another with "
        "--port (0 picks a free one)"
    )


@pytest.mark.slow
def test_up_reports_its_start_before_it_loads_the_server(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--gpus", "1") as server:
        port = server.said.partition("http://127.0.0.1:")[2].partition(" ")[0]
        server.child.send_signal(signal.SIGTERM)
        assert server.child.stderr is not None
        assert server.child.stderr.readline() == f"Starting a server on port {port}, data {tmp_path / 'data'}\n"


# ---------------------------------------------------------------- a lost database

FILE = """
workflow:
  name: e
  resources: {one: {gpu: 1}}
  tasks: [{name: t, image: any, command: [sh, -c, "%s"], resource: one}]
"""


def run_to_end(data: Path, folder: Path, command: str) -> tuple[str, str]:
    """The id and the status of a workflow called e."""
    submit = ("workflow", "submit", written(folder, FILE % command), "--pool", "default", "-t", "json")
    id = str(runrig("--data", str(data), *submit).json["name"])
    status = ""

    def ended() -> bool:
        nonlocal status
        status = runrig("--data", str(data), "workflow", "query", id, "-t", "json").json["status"]
        return status not in ("PENDING", "RUNNING")

    until(ended)
    return id, status


@pytest.mark.slow
@pytest.mark.parametrize("how", ["deleted", "cut to nothing"])
def test_after_a_database_loss_a_backup_continues_and_later_work_is_not_adopted(tmp_path: Path, how: str) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    with up(data, "--gpus", "2"):
        assert run_to_end(data, tmp_path, "echo OLD") == ("e-1", "COMPLETED")
        assert runrig("backup", "--data", str(data), "-o", str(out)).code == 0
        assert run_to_end(data, tmp_path, "echo OLD OUTPUT") == ("e-2", "COMPLETED")
    for file in data.glob("runrig.db*"):
        if how == "deleted":
            file.unlink()
        else:
            os.truncate(file, 0)
    refused = ended("up", "--data", str(data), "--port", "0", "--gpus", "2")
    assert refused.code == 10
    assert "is empty, but data folder" in refused.err
    restored = runrig("restore", str(out), "--data", str(data))
    assert (restored.code, restored.err) == (0, "")
    assert f"moved the tasks of 1 workflow that is not in the backup to {data / 'aside'}" in restored.out
    with up(data, "--gpus", "2"):
        assert run_to_end(data, tmp_path, "echo NEW; exit 7") == ("e-2", "FAILED")
        assert "NEW" in runrig("--data", str(data), "workflow", "logs", "e-2").out
        assert "OLD" in runrig("--data", str(data), "workflow", "logs", "e-1").out
    assert (data / "aside/e-2.1/t/0/stdout.log").read_text() == "OLD OUTPUT\n"


def _removed(folder: Path) -> bool:
    """Once more, if a task wrote into it meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.mark.slow
def test_processes_of_a_deleted_data_folder_are_ended_and_named_at_the_next_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--gpus", "1") as server:
        submit = ("workflow", "submit", written(tmp_path, FILE % "echo here; sleep 3600"), "--pool", "default")
        assert server.runrig(*submit).code == 0
        attempt = data / "tasks/e-1/t/0"
        until((attempt / "started").exists)
        pid = int((attempt / "started").read_text().split()[0])
        until(lambda: _removed(data))
        server.child.kill()
    with up(data, "--gpus", "1") as server:
        until(lambda: not alive(pid))
        assert run_to_end(data, tmp_path, "exit 7") == ("e-1", "FAILED")
        server.child.terminate()
        assert server.child.stderr is not None
        warnings = [line for line in server.child.stderr if line.startswith("Warning: ended what still ran")]
    # Each server of this machine ends tasks that lost their data folder: one of another test may have come first,
    # or left some.
    assert warnings == [] or f"{data}/tasks/e-1/t/0" in warnings[0]
