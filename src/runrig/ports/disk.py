"""Disk operations shared by the store and the backends."""

import errno
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Returns once the entries of *folder* would survive a power failure. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_full(error: OSError) -> bool:
    """Whether *error* means that the disk or the user's disk quota is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def identity(path: Path) -> tuple[int, int] | None:
    """Identifies a file or folder even if another one takes its name; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
