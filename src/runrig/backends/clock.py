"""The time of the server: that of the machine's clock at the start, and from then on what has passed.

A clock that is put forward or back must not end a task that is limited to an hour, delete what is kept for 90 days, or let new work
go before older work.  So after the start the machine's clock (the *wall clock*) is only compared with, until somebody accepts it.
"""

import time
from collections.abc import Callable

MOST_OFF_S = 60.0
"""So far may the wall clock be from the server's time; beyond, it is not believed."""
LONGEST_GAP_S = 86_400.0
"""So far may the wall clock be beyond the end of the log when a server starts."""


def _since_boot() -> float:
    """Seconds that have passed, those in which the machine slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ServerClock:
    """*wall*: seconds since the epoch, as the machine says.  *elapsed*: seconds since some moment; nobody can put it back."""

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _since_boot) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._begin_s = wall() - elapsed()
        self._accepted_s = 0.0
        self._gap_s = 0.0

    def resume(self, last: float | None, *, busy: bool) -> None:
        """Goes on from *last*, the end of the log; None: it is empty.  Never back, and not over a gap of more than a day while *busy*.

        *busy*: there is work whose limits the gap would count for.  Without any, the time is that of the wall clock, and only doubted.
        """
        if last is None:
            return
        gap_s = self.now() - last
        if gap_s < 0 or (gap_s > LONGEST_GAP_S and busy):
            self._begin_s = last - self._elapsed()
        elif gap_s > LONGEST_GAP_S:
            self._gap_s = gap_s

    def now(self) -> float:
        return round(self._begin_s + self._elapsed(), 6)

    @property
    def difference_s(self) -> float:
        """How far the wall clock is ahead of the server's time; negative: behind."""
        return self._wall() - self.now()

    @property
    def doubt(self) -> str | None:
        if self._gap_s:
            return f"the machine's clock is {_span(self._gap_s)} beyond the end of the log"
        off_s = self.difference_s
        if abs(off_s - self._accepted_s) <= MOST_OFF_S:
            return None
        return f"the machine's clock is {_span(abs(off_s))} {'ahead of' if off_s > 0 else 'behind'} the server's time"

    def accept(self) -> None:
        """Takes the wall clock's time if it is later; if it is earlier the server's goes on, and the difference is no news."""
        self._begin_s = max(self._begin_s, self._wall() - self._elapsed())
        self._accepted_s = min(0.0, self.difference_s)
        self._gap_s = 0.0


def _span(seconds: float) -> str:
    """In the largest unit in which it is at least two."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
