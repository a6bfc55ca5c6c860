"""The clock."""

from typing import Protocol


class Clock(Protocol):
    """The server's time. It runs evenly and never backwards, even if the system clock is changed."""

    def now(self) -> float:
        """Returns seconds since the epoch, in whole microseconds, so that a stored time reads back equal."""

    @property
    def difference_s(self) -> float:
        """Returns how many seconds the system clock is ahead of the server's time; negative: behind."""

    @property
    def doubt(self) -> str | None:
        """Returns why the system clock is not trusted; None if it is."""

    def accept(self) -> None:
        """Trusts the system clock again. The server's time can jump forward, never back."""
