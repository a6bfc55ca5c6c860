"""Records how the logs of an attempt interleave. Its supervisor imports this, and nothing else of runrig."""

import contextlib
import ctypes
import fcntl
import os
import time

LOGS = ("stdout.log", "stderr.log")
NOTE_S = 0.001
"""Minimum seconds between two notes."""
LOOK_S = 0.1
"""Seconds between checks whether the logs have grown, without inotify."""
_IN_MODIFY = 2
_libc = ctypes.CDLL(None, use_errno=True)


class Order:
    """Writes the sizes of the logs to ``order`` whenever they grow: lines of microseconds since the epoch and both
    sizes.

    It only watches. The command writes the logs itself, so they are complete and in order even if this fails. While the
    same log keeps growing, one note per `LOOK_S` is enough. Failed notes are skipped.
    """

    def __init__(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._logs = [os.open(path, flags, 0o600) for path in LOGS]
        self._file = os.open("order", flags, 0o600)
        self._told: tuple[int, ...] = (0, 0)
        # Moments are monotonic, because the system clock can be set back. Only what is written has its time.
        self._told_at = 0.0
        self._seen: tuple[int, ...] = (0, 0)
        self._seen_at = 0.0
        self._seen_time = 0.0
        self._watch = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        watched = self._watch >= 0 and all(
            _libc.inotify_add_watch(self._watch, os.fsencode(path), _IN_MODIFY) >= 0 for path in LOGS
        )
        self._patience = 3600.0 if watched else LOOK_S  # No instance left: the usual limit is 128 per user.
        if watched:
            fcntl.fcntl(self._watch, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(self._watch, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)

    def look(self) -> float:
        """Checks what has grown. Returns seconds until the next check, unless SIGIO comes first."""
        with contextlib.suppress(OSError):
            while self._watch >= 0 and os.read(self._watch, 1 << 16):
                pass
        sizes, now = tuple(os.fstat(log).st_size for log in self._logs), time.monotonic()
        if sizes == self._seen:
            if now - self._seen_at >= LOOK_S:
                self.note()
        else:
            same = _grown(self._told, self._seen) == _grown(self._seen, sizes) in ((True, False), (False, True))
            if not same or now - self._told_at >= LOOK_S:
                self.note()
            self._seen, self._seen_at, self._seen_time = sizes, now, time.time()
        return self._patience if self._seen == self._told else LOOK_S

    def end(self) -> None:
        self.look()
        self.note()

    def note(self) -> None:
        """Writes the last sizes, if they are not written yet."""
        if self._seen != self._told:
            with contextlib.suppress(OSError):  # A full disk: output without a note is sorted last.
                os.write(self._file, b"%d %d %d\n" % (self._seen_time * 1e6, *self._seen))
            self._told, self._told_at = self._seen, self._seen_at


def _grown(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[bool, ...]:
    return tuple(old != new for old, new in zip(before, after, strict=True))
