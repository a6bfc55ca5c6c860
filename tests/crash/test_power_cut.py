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

import pytest

from runrig.store import SqlStore
from tests.crash.server import Server
from tests.worlds.service import one_task

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists(),
    reason="a power cut is tried on a file system of its own, which needs root, mkfs.ext4 and loop devices",
)
SIZE = 64 * 2**20


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir()
    subprocess.run(["mount", "-o", "loop,commit=600", image, at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "disk"
    with file.open("wb") as stream:
        stream.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", file], check=True)
    return file


def test_what_was_answered_is_there_after_a_power_cut(tmp_path: Path, image: Path) -> None:
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
                shutil.copy(image, tmp_path / "after")  # the power is cut here
        finally:
            server.kill()
    with mounted(tmp_path / "after", tmp_path / "again") as disk:
        store = SqlStore.open(disk / "new" / "deep" / "data" / "runrig.db", exclusive=True)
        stored = [store.head(name).id for name in names]
        store.close()
    assert stored == names
