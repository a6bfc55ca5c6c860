"""Runs of one measurement, and their summary."""

import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench import calibration
from runrig.wiring.process import keep_what_is_loaded


class Times(NamedTuple):
    """Seconds of each run, in order.  *bare*: of the calibration loop next to each run; empty if it is irrelevant."""

    seconds: tuple[float, ...]
    bare: tuple[float, ...] = ()

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def normalised(self) -> float:
        """The median in seconds on a machine of nominal speed, whatever other load this one had."""
        return calibration.NOMINAL_S * median(each / bare for each, bare in zip(self.seconds, self.bare, strict=True))


@contextmanager
def as_served() -> Iterator[None]:
    """Objects made before are excluded from garbage collection, and it is as rare as in a server."""
    thresholds = gc.get_threshold()
    keep_what_is_loaded()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def processor_s() -> float:
    """Processor seconds of this process, and of ended processes that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def took(work: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Seconds of *work*."""
    start = clock()
    work()
    return clock() - start


def timed(measure: Callable[[], float], runs: int, clock: Callable[[], float] = perf_counter) -> Times:
    """*measure* builds its own world and returns the seconds of the part that counts.  *clock*: the one that *measure* reads, for
    the calibration loop.  Garbage of earlier runs is collected before; the collector stays on while time is taken.
    """
    seconds, bare = [], []
    for _ in range(runs):
        gc.collect()
        before = calibration.once(clock)
        seconds.append(measure())
        bare.append((before + calibration.once(clock)) / 2)
    return Times(tuple(seconds), tuple(bare))
