"""The server's time: the system clock at the start, then elapsed time.

Setting the clock forward or back must not end a task with a run time limit, delete data early, or reorder the queue. So
after the start the system clock (the *wall clock*) is only compared, until an administrator accepts it.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

from runrig.domain.errors import ServerFault

MOST_OFF_S = 60.0
"""Seconds by which the wall clock can differ from the server's time before it is no longer trusted."""
LONGEST_GAP_S = 86_400.0
"""Seconds by which the wall clock can be past the end of the log when a server starts."""


def _since_boot() -> float:
    """Returns the seconds since boot, including sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ServerClock:
    """*wall*: the system clock, in seconds since the epoch. *elapsed*: seconds since some moment, never set back.

    *kept*: a file with the accepted difference, by which the system clock was behind, for the next start.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = _since_boot,
        kept: Path | None = None,
    ) -> None:
        self._kept = kept
        self._wall = wall
        self._elapsed = elapsed
        self._begin_s = self._set_s = wall() - elapsed()
        self._accepted_s = 0.0
        self._gap_s = 0.0

    def resume(self, last: float | None, *, busy: bool) -> None:
        """Continues from *last*, the end of the log; None: it is empty. Never goes back, nor over a gap of more than a
        day while *busy*.

        *busy*: there are workflows whose limits the gap would count for. Otherwise the wall clock's time is used, with
        a warning. A wall clock that is behind by the accepted amount counts as correct.
        """
        if last is None:
            return
        if self.now() < last:
            self._accepted_s = self._accepted_before()
            self._begin_s -= self._accepted_s
        else:
            self._keep(0.0)
        gap_s = self.now() - last
        if gap_s < 0 or (gap_s > LONGEST_GAP_S and busy):
            self._begin_s = last - self._elapsed()
        elif gap_s > LONGEST_GAP_S:
            self._gap_s = gap_s

    def now(self) -> float:
        return round(self._begin_s + self._elapsed(), 6)

    def outside(self) -> float:
        """Returns the wall clock's time, to be compared with times of other machines. Without what it was set forward since the
        start or `accept`, because nothing may count as late for that.
        """
        return min(self._wall(), self._set_s + self._elapsed())

    @property
    def difference_s(self) -> float:
        """Returns how many seconds the wall clock is ahead of the server's time; negative: behind."""
        return self._wall() - self.now()

    @property
    def doubt(self) -> str | None:
        if self._gap_s:
            return f"the system clock is {_span(self._gap_s)} later than the last log entry"
        off_s = self.difference_s
        if abs(off_s - self._accepted_s) <= MOST_OFF_S:
            return None
        return f"the system clock is {_span(abs(off_s))} {'ahead of' if off_s > 0 else 'behind'} the server's time"

    def accept(self) -> None:
        """Takes the wall clock's time if it is later. If it is earlier, keeps the server's time and records the
        difference as accepted.
        """
        self._set_s = self._wall() - self._elapsed()
        self._begin_s = max(self._begin_s, self._set_s)
        self._accepted_s = min(0.0, self.difference_s)
        self._gap_s = 0.0
        self._keep(self._accepted_s)

    def _accepted_before(self) -> float:
        """Returns the accepted seconds; 0 if none, or if the file is invalid."""
        try:
            found = 0.0 if self._kept is None else float(self._kept.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0.0
        return found if -math.inf < found < 0 else 0.0

    def _keep(self, accepted_s: float) -> None:
        """Writes the file atomically, or removes it for 0. Raises ServerFault."""
        if self._kept is None:
            return
        try:
            if accepted_s < 0:
                temporary = self._kept.with_name(self._kept.name + ".new")
                temporary.write_text(f"{accepted_s}\n", encoding="ascii")
                temporary.replace(self._kept)
            else:
                self._kept.unlink(missing_ok=True)
        except OSError as error:
            raise ServerFault(
                f"{self._kept} cannot be written ({error.strerror}), so the clock would be rejected again after a restart. "
                "Fix the data folder, then accept the clock again"
            ) from error


def _span(seconds: float) -> str:
    """Formats a duration in the largest unit that gives at least 2."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
