"""How files are opened, so that a pipe in the place of a file is never waited for.

- A command reads a file named on its command line once, so this can be a pipe that a program writes to, such as ``/dev/stdin`` or
  ``<(...)``: `read_once`.
- A file that runrig finds by itself, that another file names, or that is read twice must be a regular file: `regular_file`.
"""

import errno
import io
import os
import stat
from pathlib import Path


def regular_file(path: Path) -> Path:
    """Returns *path*. Raises OSError for a pipe, a socket or a device, and if it does not exist. A folder fails when it is read."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return path
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_once(path: Path, most: int) -> bytes:
    """Returns the first *most* bytes. Raises OSError, also for a pipe that no program writes to, and one that ends without a byte."""
    with open(path, "rb", buffering=0, opener=_at_once) as raw, io.BufferedReader(raw) as file:
        first = raw.read(1)  # None: a program has opened the pipe, but has not written yet.
        os.set_blocking(raw.fileno(), True)
        read = b"" if first == b"" else (first or b"") + file.read(most - len(first or b""))
        if not read and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENODATA, "Nothing was written to this pipe", str(path))
        return read


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
