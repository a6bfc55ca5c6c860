"""A named pipe with which supervisors wake the server: no path limit, no listener, nothing to rebind after a crash."""

import contextlib
import os
import select
from pathlib import Path


class WakePipe:
    def __init__(self, path: Path) -> None:
        if not path.is_fifo():  # A regular file, such as from a copy of the folder, would always be ready.
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
        # Open for writing too, so that it never reads as closed and the server can wake itself.
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Returns True as soon as it was written to since the last True; False after *timeout_s*."""
        if not self._poll.poll(max(0.0, timeout_s) * 1000):
            return False
        with contextlib.suppress(BlockingIOError):
            os.read(self._pipe, 1 << 16)
        return True

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # Full: a wake-up is already pending.
            os.write(self._pipe, b".")

    def close(self) -> None:
        os.close(self._pipe)
