"""How long the logs of an attempt were when, noted by its supervisor, which imports this without anything else of ours."""

import contextlib
import ctypes
import fcntl
import os
import time

LOGS = ("stdout.log", "stderr.log")
NOTE_S = 0.001
"""The shortest time between two notes."""
LOOK_S = 0.1
"""How often to look whether the logs have grown, where nobody says so."""
_IN_MODIFY = 2
_libc = ctypes.CDLL(None, use_errno=True)


class Order:
    """Notes in ``order`` how long the logs are whenever they have grown: lines of microseconds since the epoch and both sizes.

    It only watches: the command writes the logs itself, so nothing of them is lost with us, and they stay whole and in order whoever
    writes.  While the same log goes on to grow, one note in `LOOK_S` is enough.  Where no note can be written there is none.
    """

    def __init__(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._logs = [os.open(path, flags, 0o600) for path in LOGS]
        self._file = os.open("order", flags, 0o600)
        self._told: tuple[int, ...] = (0, 0)
        self._told_at = 0.0
        self._seen: tuple[int, ...] = (0, 0)
        self._seen_at = 0.0
        self._watch = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        watched = self._watch >= 0 and all(
            _libc.inotify_add_watch(self._watch, os.fsencode(path), _IN_MODIFY) >= 0 for path in LOGS
        )
        self._patience = 3600.0 if watched else LOOK_S  # no instance is left: the usual limit is 128 a user
        if watched:
            fcntl.fcntl(self._watch, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(self._watch, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)

    def look(self) -> float:
        """Takes note of what has grown.  Seconds after which to look again, if SIGIO does not come before."""
        with contextlib.suppress(OSError):
            while self._watch >= 0 and os.read(self._watch, 1 << 16):
                pass
        sizes, now = tuple(os.fstat(log).st_size for log in self._logs), time.time()
        if sizes == self._seen:
            if now - self._seen_at >= LOOK_S:
                self.note()
        else:
            same = _grown(self._told, self._seen) == _grown(self._seen, sizes) in ((True, False), (False, True))
            if not same or now - self._told_at >= LOOK_S:
                self.note()
            self._seen, self._seen_at = sizes, now
        return self._patience if self._seen == self._told else LOOK_S

    def end(self) -> None:
        self.look()
        self.note()

    def note(self) -> None:
        """Writes down what was seen last, if it is not written yet."""
        if self._seen != self._told:
            with contextlib.suppress(OSError):  # a full disk: what no note covers comes last
                os.write(self._file, b"%d %d %d\n" % (self._seen_at * 1e6, *self._seen))
            self._told, self._told_at = self._seen, self._seen_at


def _grown(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[bool, ...]:
    return tuple(old != new for old, new in zip(before, after, strict=True))
