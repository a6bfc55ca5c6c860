"""How long tests wait for what has to come, on machines that have other work too."""

import time
from collections.abc import Callable

PATIENCE_S = 120.0
"""Far more than anything takes on a busy machine, less than the timeout of a test: what has not come by then never comes."""
_LOOP_S = 0.1


def until(
    holds: Callable[[], object],
    within_s: float = PATIENCE_S,
    said: Callable[[], str] = str,
    *,
    pause: Callable[[], object] = lambda: time.sleep(0.02),
) -> float:
    """Seconds until *holds*; fails after *within_s*, with what is *said* then.  *pause* passes the time between two looks."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < within_s, f"it never came to hold\n{said()}"
        pause()
    return time.monotonic() - start


def crowding() -> float:
    """Wall seconds per second of processor time that this process gets now: 1.0 if nobody else wants the processor.

    A bound in seconds that is a promise about an idle machine is multiplied by it.  Costs 0.1 s of processor time.
    """
    wall, worked = time.monotonic(), time.process_time()
    while time.process_time() - worked < _LOOP_S:
        pass
    return max(1.0, (time.monotonic() - wall) / (time.process_time() - worked))
