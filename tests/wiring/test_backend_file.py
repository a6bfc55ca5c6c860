"""The file that ties a data folder to its backend."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from runrig.domain.errors import Conflict
from runrig.wiring.process import keep_backend

TOGETHER = 8


def _start(folder: Path, barrier: Barrier) -> None:
    barrier.wait()
    keep_backend(folder, "simulated", "name another")


def test_servers_that_start_together_agree(tmp_path: Path) -> None:
    """A leader and its standby, say, on a new folder: nobody reads the file of another before it is whole."""
    with ThreadPoolExecutor(TOGETHER) as pool:
        for number in range(50):
            folder = tmp_path / str(number)
            folder.mkdir()
            starts = [pool.submit(partial(_start, folder, barrier)) for barrier in [Barrier(TOGETHER)] * TOGETHER]
            assert [start.result() for start in starts] == [None] * TOGETHER
            assert [file.name for file in folder.iterdir()] == ["backend"]


def test_another_backend_is_refused(tmp_path: Path) -> None:
    keep_backend(tmp_path, "local", "name another")
    with pytest.raises(Conflict, match="was created with backend local, so backend simulated cannot use it"):
        keep_backend(tmp_path, "simulated", "name another")
