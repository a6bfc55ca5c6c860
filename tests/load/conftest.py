"""On a real disk (tests/on_disk.py)."""

from tests.on_disk import tmp_path

__all__ = ["tmp_path"]
