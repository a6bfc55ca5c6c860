"""The last hour by minute, for pictures of a pool: too fine to be stored."""

from collections import deque
from collections.abc import Iterable

from runrig.domain.usage import FLAVOR, HOUR_S, MICROSECONDS, MINUTE_S, WORK, Hour, Key
from runrig.engine.usage.integrals import Integrals

_HOUR = HOUR_S * MICROSECONDS


class Recent:
    """Sums per minute, of all users together. *values*: at the time *at*, in microseconds."""

    def __init__(self, values: Iterable[tuple[Key, int]], at: int) -> None:
        self._known = -(-at // (MINUTE_S * MICROSECONDS)) * MINUTE_S
        """Since when whole minutes are known, in seconds."""
        self._sums = Integrals({}, at, MINUTE_S)
        self._closed: deque[Hour] = deque(maxlen=HOUR_S // MINUTE_S)
        for key, value in values:
            self.change(key, value, at)

    def change(self, key: Key, by: int, at: int) -> None:
        if key[0] != FLAVOR:
            self._sums.change(_without_user(key), by, at)

    def put(self, key: Key, value: int, at: int) -> None:
        """As `Integrals.put`, for sums without users."""
        self._sums.put(key, value, at)

    def move(self, at: int) -> None:
        """Nothing changes before *at*."""
        self._sums.skip(at - _HOUR)
        self._closed += self._sums.close(at)

    def until(self, at: int) -> tuple[int, list[Hour]]:
        """Returns since when minutes are known, and the minutes up to *at*, which is after all changes."""
        since = max(self._known, (at - _HOUR) // MICROSECONDS)
        return since, [each for each in (*self._closed, *self._sums.until(at, at - _HOUR)) if each.begin >= since]


def _without_user(key: Key) -> Key:
    return (*key[:-2], key[-1]) if key[0] == WORK else key
