"""What a file system does to a server is tried on a real disk: others keep their folders in memory (tests/conftest.py)."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp", prefix="runrig-crash-") as folder:
        yield Path(folder)
