"""The time of day."""

import time


class SystemClock:
    """Real time; the simulated backend has a clock of its own."""

    def now(self) -> float:
        return round(time.time(), 6)
