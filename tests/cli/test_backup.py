"""`runrig backup` and `runrig restore` as people use them: beside a server that runs, by folder and by configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.errors import ServerFault
from runrig.store import SqlStore
from runrig.wiring.backup import _files, _pieces
from tests.replaying import replayed
from tests.store.backups import everything
from tests.stores import store_url
from tests.worlds.command_line import Done, runrig, up

FILE = """
workflow:
  name: job
  tasks: [{name: main, image: any, command: [sleep, '1'], duration: 2, resource: one}]
  resources: {one: {gpu: 1}}
"""


SIMULATED = ("--backend", "simulated", "--gpus", "2")


def submit(data: Path, file: Path) -> Done:
    return runrig("--data", str(data), "workflow", "submit", str(file), "--pool", "default")


def workflows(data: Path) -> list[Any]:
    found = runrig("--data", str(data), "workflow", "list", "--all", "-t", "json").json["workflows"]
    return sorted(each["name"] for each in found)


@pytest.mark.slow
def test_running_server_is_backed_up_and_its_copy_continues(tmp_path: Path) -> None:
    old, new, out, file = tmp_path / "old", tmp_path / "new", tmp_path / "out", tmp_path / "job.yaml"
    file.write_text(FILE)
    with up(old, *SIMULATED):
        for _ in range(3):
            assert submit(old, file).code == 0
        done = runrig("backup", "--data", str(old), "-o", str(out))
        assert (done.code, done.err) == (0, "")
        assert "3 workflows, 1 pool, 0 users" in done.out
        assert submit(old, file).code == 0
        busy = runrig("restore", str(out), "--data", str(old))
        assert busy.code == 10
        assert "is in use by the server with process id" in busy.err
    full = runrig("restore", str(out), "--data", str(old))
    assert full.code == 1
    assert "is not empty (it is at revision" in full.err
    checked = runrig("restore", str(out), "--check")
    assert checked.out == f"{out} is whole: {done.out.partition(': ')[2]}"
    assert runrig("restore", str(out), "--data", str(new)).code == 0
    store = SqlStore.look(new / "runrig.db")
    loaded = store.load()
    assert loaded == replayed(store, loaded.revision).rows()
    store.close()
    with up(new, *SIMULATED):
        assert workflows(new) == ["job-1", "job-2", "job-3"]
        assert "job-4" in submit(new, file).out


@pytest.mark.slow
def test_backup_moves_a_server_to_another_database(tmp_path: Path) -> None:
    with store_url("sqlite", tmp_path / "one") as first, store_url("postgresql", tmp_path / "two") as second:
        for name, url in (("first", first), ("second", second)):
            (tmp_path / name).mkdir()
            config = {"database": url, "data": str(tmp_path / name / "data"), "backend": "simulated"}
            (tmp_path / f"{name}.yaml").write_text(json.dumps(config))
            (tmp_path / f"{name}.yaml").chmod(0o600)
        admin = runrig("serve", "--config", str(tmp_path / "first.yaml"), "--init-admin", "alice")
        assert admin.code == 0, admin.err
        done = runrig("backup", "--config", str(tmp_path / "first.yaml"), "-o", str(tmp_path / "out"))
        assert (done.code, done.err) == (0, "")
        moved = runrig("restore", str(tmp_path / "out"), "--config", str(tmp_path / "second.yaml"))
        assert (moved.code, moved.err) == (0, "")
        was, now = SqlStore.look(first), SqlStore.look(second)
        assert everything(now) == everything(was)
        assert len(everything(now)["tokens"]) == 1
        was.close()
        now.close()


def test_errors_are_reported_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a: 1\n")
    for args, code, said in (
        (
            ("backup", "--data", str(tmp_path / "none"), "-o", str(tmp_path / "out")),
            2,
            "not found. Use the database of a server",
        ),
        (("backup", "--data", str(tmp_path)), 2, "Missing option '-o'"),
        (("restore", str(tmp_path / "no"), "--data", str(tmp_path / "new")), 2, "is not a backup"),
        (("restore", str(tmp_path / "none"), "--check"), 2, "cannot be read"),
        (("restore", str(tmp_path / "no"), "--config", str(tmp_path / "no"), "--data", "x"), 2, "Omit --data."),
        (("backup", "--config", str(tmp_path / "no"), "-o", str(tmp_path / "out")), 2, f"{tmp_path / 'no'}:1:1:"),
    ):
        done = runrig(*args)
        assert (done.code, done.out) == (code, "")
        assert said in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["no"]


def test_output_that_cannot_be_read_is_named_instead_of_the_backup(tmp_path: Path) -> None:
    """A folder in its place stands for a file without permission, which root can read."""
    with pytest.raises(ServerFault, match=rf"{tmp_path} cannot be read .Is a directory., so nothing was backed up"):
        list(_pieces(tmp_path))


def test_output_that_cannot_be_listed_is_named_instead_of_the_backup(tmp_path: Path) -> None:
    """A file in its place stands for a folder without permission, which root can list."""
    (tmp_path / "tasks").touch()
    with pytest.raises(ServerFault, match=rf"{tmp_path}/tasks cannot be read .Not a directory., so nothing was backed"):
        list(_files(tmp_path, log_files=True))
    assert list(_files(tmp_path, log_files=False)) == []
