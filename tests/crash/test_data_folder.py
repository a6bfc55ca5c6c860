"""A data folder that is harmed under a running server: what it answered is there after a restart, and it never dies of it."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.crash.server import Server
from tests.patience import until
from tests.worlds.http import Client
from tests.worlds.service import one_task

FULL = "the disk of the database {}/data/runrig.db is full, so nothing was stored. Free some space and try again"
SUBMIT = "/api/pool/default/workflow"


@contextmanager
def running(folder: Path) -> Iterator[tuple[Server, Client]]:
    server = Server(folder, gpus=1)
    server.spawn()
    try:
        server.wait_until_ready()
        client = server.client()
        with closing(client):
            yield server, client
    finally:
        server.kill()


def submit(client: Client, name: str) -> tuple[int, str]:
    """Status and message."""
    status, answer = client.call("POST", SUBMIT, {"file": one_task(name)})
    return status, answer.get("message", "")


def not_ready(client: Client) -> bool:
    """Comes when the end of a task could not be stored."""
    return client.call("GET", "/readyz")[0] == 503


def delete(file: Path) -> None:
    file.unlink()


def replace(file: Path) -> None:
    """Replaces *file* by a copy, as when somebody restores a file."""
    shutil.copy(file, file.with_suffix(".copy"))
    file.with_suffix(".copy").rename(file)


@pytest.mark.parametrize(
    ("name", "harm", "word"),
    [
        ("runrig.db", delete, "deleted"),
        ("runrig.db", replace, "replaced"),
        ("runrig.db-wal", delete, "deleted"),
        ("runrig.db-shm", delete, "deleted"),
    ],
)
def test_nothing_is_accepted_into_a_deleted_file(
    tmp_path: Path, name: str, harm: Callable[[Path], None], word: str
) -> None:
    with running(tmp_path) as (server, client):
        assert submit(client, "before")[0] == 200
        harm(server.data / name)
        status, message = submit(client, "after")
        assert status == 500
        assert f"{server.data / name} was {word} while the server used it, so nothing more is stored" in message
        assert "estore a backup with `runrig restore`" in message
        until(lambda: not_ready(client))


def at_rest(server: Server) -> bool:
    """Nothing was stored for a second: a folder that turns read-only under a write ends the process."""
    log = server.data / "runrig.db-wal"
    before = log.stat().st_mtime_ns
    time.sleep(1.0)
    return log.stat().st_mtime_ns == before


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing in *folder* can be written, not even by whoever has it open."""
    if subprocess.run(["chattr", "+i", folder / "runrig.db.lock"], capture_output=True, check=False).returncode:
        pytest.skip(
            "a folder under a running server is made read-only by `chattr +i`, which needs root and a file system that has it"
        )
    files = [folder, *(folder / f"runrig.db{suffix}" for suffix in ("", "-wal", "-shm", ".lock"))]
    subprocess.run(["chattr", "+i", *files], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)


def test_server_survives_a_folder_that_becomes_read_only_and_continues_afterwards(tmp_path: Path) -> None:
    with running(tmp_path) as (server, client):
        assert submit(client, "before")[0] == 200
        until(lambda: at_rest(server))
        with read_only(server.data):
            status, message = submit(client, "between")
            assert status == 503
            assert "cannot be written (Operation not permitted), so nothing is read or stored" in message
            until(lambda: not_ready(client))
        assert submit(client, "after")[0] == 200
        server.kill()
        server.spawn()
        server.wait_until_ready()
        with closing(server.client()) as again:
            found = again.ok("GET", "/api/workflow?all_users=true")["workflows"]
        assert sorted(each["name"] for each in found) == ["after-1", "before-1"]


def test_server_on_a_full_disk_is_not_ready_until_there_is_space(tmp_path: Path) -> None:
    """D6: one row still fits where a submission does not."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine mounts no file systems for us")
    try:
        with running(tmp_path) as (_, client):
            filler = tmp_path / "filler"
            with suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(b"x" * 4096)
                    file.flush()
            assert submit(client, "a")[0] == 500
            for _ in range(3):
                assert client.call("GET", "/readyz")[0] == 503
                assert submit(client, "a") == (500, FULL.format(tmp_path))
            filler.unlink()
            until(lambda: client.call("GET", "/readyz")[0] == 200)
            assert submit(client, "b")[0] == 200
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
