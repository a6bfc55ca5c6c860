"""Folders on a real disk, for tests whose subject is a disk or a time: others keep theirs in memory (tests/conftest.py).

from tests.on_disk import tmp_path  # in the conftest.py of their folder
"""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(
        dir=os.environ.get("TMPDIR", "/tmp"), prefix="runrig-test-", ignore_cleanup_errors=True
    ) as it:
        yield Path(it)
