"""How busy a GPU is."""

from dataclasses import dataclass
from datetime import UTC, datetime

from runrig.domain.value import Shown, shown_as

IDLE_BELOW_PERCENT = 5
"""A GPU that is less busy is idle."""


@dataclass(frozen=True, slots=True)
class GpuUse(Shown):
    """A GPU.  *index*: on its node.  *busy_percent*: how much of a moment ago it worked.  Memory is in bytes.  *idle_s*: for how long it
    has been less than 5 % busy, at most since the task started; null: it is busy.  All but *index* are null if unknown.
    """

    index: int
    busy_percent: int | None = None
    memory_used: int | None = None
    memory: int | None = None
    power_w: float | None = None
    idle_s: float | None = None


shown_as(GpuUse(0, 96, 65498251264, 84825604096, 641.5))


@dataclass(frozen=True, slots=True)
class GpuMinute(Shown):
    """One minute of some GPUs, which begins at *at*: averages over the GPUs and the minute.  Memory is in bytes.  Null: not measured."""

    at: datetime
    busy_percent: int | None
    memory_used: int | None


shown_as(GpuMinute(datetime(2026, 8, 1, 9, 30, tzinfo=UTC), 96, 65498251264))
