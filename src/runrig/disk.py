"""What the store and the backends both do with a disk, who do not know each other."""

import errno
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Returns once the entries of *folder* survive a power cut.  Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_full(error: OSError) -> bool:
    """True if *error* says that there is no room left on a disk, or no more of it for this user."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def identity(path: Path) -> tuple[int, int] | None:
    """Returns what tells a file or folder from another one of its name; None if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
