"""The clock."""

from typing import Protocol


class Clock(Protocol):
    """The server's time. It runs evenly and never backwards, even if the system clock is changed."""

    def now(self) -> float:
        """Seconds since the epoch, in whole microseconds, so that a stored time reads back equal."""

    @property
    def difference_s(self) -> float:
        """How far the machine's clock is ahead of the server's time; negative: behind."""

    @property
    def doubt(self) -> str | None:
        """Why the machine's clock is not believed, in words; None if it is."""

    def accept(self) -> None:
        """From now on the machine's clock is believed.  The server's time may go forward by this, never back."""
