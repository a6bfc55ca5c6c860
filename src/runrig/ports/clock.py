"""The clock."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, in whole microseconds, so that a stored time reads back equal."""
