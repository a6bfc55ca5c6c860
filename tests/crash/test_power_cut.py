"""Law W2 when the power goes: what was answered is on the disk, on a real ext4 that forgets what was not synced.

The data folder lies on a file system in a file.  What that file has at a moment is what a disk would have: the rest is in the memory of
the kernel, which would keep it for ten minutes here.  A copy of the file is the machine after the power cut.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runrig.store import SqlStore
from tests import postgres
from tests.crash.server import Server
from tests.worlds.lawful import judge
from tests.worlds.service import desk, one_task

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists(),
    reason="a power cut is tried on a file system of its own, which needs root, mkfs.ext4 and loop devices",
)
SIZE = 512 * 2**20
"""Only what is written takes room."""
DURABLE = {"listen_addresses": "", "shared_buffers": "16MB", "max_connections": "30", "max_wal_size": "64MB"}
"""fsync is on unless somebody turns it off."""


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop,commit=600", image, at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def cut_the_power(image: Path, after: Path) -> None:
    subprocess.run(["cp", "--sparse=always", image, after], check=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "disk"
    with file.open("wb") as stream:
        stream.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", file], check=True)
    return file


@pytest.fixture
def mount_point() -> Iterator[Path]:
    """Where PostgreSQL's own user gets at it."""
    with TemporaryDirectory(prefix="runrig-power-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "disk"


def test_answered_changes_survive_a_power_cut(tmp_path: Path, image: Path) -> None:
    """W2."""
    names = []
    with mounted(image, tmp_path / "running") as disk:
        server = Server(disk / "new" / "deep", gpus=1)
        (disk / "new" / "deep").mkdir(parents=True)
        server.spawn()
        try:
            server.wait_until_ready()
            with closing(server.client()) as client:
                for number in range(20):
                    text = one_task(f"w{number}")
                    names.append(client.ok("POST", "/api/pool/default/workflow", {"file": text})["name"])
                cut_the_power(image, tmp_path / "after")
        finally:
            server.kill()
    with mounted(tmp_path / "after", tmp_path / "again") as disk:
        database = disk / "new" / "deep" / "data" / "runrig.db"
        with closing(SqlStore.open(database, exclusive=True)) as store:
            stored = [store.head(name).id for name in names]
        judge(database)
    assert stored == names


def test_answered_changes_survive_a_power_cut_on_postgresql(tmp_path: Path, image: Path, mount_point: Path) -> None:
    """W2."""
    with mounted(image, mount_point) as disk:
        disk.chmod(0o777)
        before = postgres.start(DURABLE, within=disk)
        try:
            subprocess.run(
                ["sync", "-f", disk], check=True
            )  # PostgreSQL's files exist already; only runrig's own data is tested
            with desk(tmp_path, database=before.url("postgres")) as it:
                names = [it.submit(f"w{number}") for number in range(20)]
                assert it.store.risk() is None
                cut_the_power(image, tmp_path / "after")
        finally:
            before.stop()
    with mounted(tmp_path / "after", mount_point):
        for lock in ("data/postmaster.pid", ".s.PGSQL.5432.lock"):
            (before.folder / lock).unlink()  # of a process that a machine would have lost
        after = postgres.resume(before.folder)
        try:
            with closing(SqlStore.open(after.url("postgres"), exclusive=True)) as store:
                stored = [store.head(name).id for name in names]
            judge(after.url("postgres"))
        finally:
            after.stop()
    assert stored == names
