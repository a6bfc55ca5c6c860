"""Refuses to read what is not a plain file: opening a named pipe waits for a writer, and a device may never end."""

import errno
import stat
from pathlib import Path


def plain_file(path: Path) -> Path:
    """Returns *path*. Raises OSError for a pipe, a socket or a device, and if it does not exist. A folder fails when it is read."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return path
    raise OSError(errno.EINVAL, "Not a plain file", str(path))
