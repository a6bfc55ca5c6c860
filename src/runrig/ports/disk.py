"""Disk operations shared by the store and the backends."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from runrig.domain.errors import ServerFault

T = TypeVar("T")


def kept(path: Path, read: Callable[[str], T]) -> T:
    """Returns what *read* makes of the text that an earlier start wrote to *path*. Raises OSError, ServerFault if it is damaged."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError) as error:
        raise ServerFault(
            f"{path} is damaged. Restore it from a copy of its folder, or choose another data folder"
        ) from error


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
