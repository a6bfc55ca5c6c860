"""What stands between a gang and its start, and what the engine says of a changed state."""

from dataclasses import dataclass

from runrig.domain.reasons import Reason
from runrig.domain.value import Shown, Word, example, shown_as


class Verdict(Word):
    """What the next cycle does with a gang.

    STARTS: it is admitted.  STARTS_AFTER_STOPS: it is nominated, and starts once others have stopped.  WAITS: neither.
    NOT_PROVEN: a budget ended before that was known.  REFUSED: the gate would not take it.
    """

    STARTS = "STARTS"
    STARTS_AFTER_STOPS = "STARTS_AFTER_STOPS"
    WAITS = "WAITS"
    NOT_PROVEN = "NOT_PROVEN"
    REFUSED = "REFUSED"

    @property
    def starts(self) -> bool:
        return self in (Verdict.STARTS, Verdict.STARTS_AFTER_STOPS)


class Tier(Word):
    """What kind of condition is not met.  They are told in this order; the first is the headline."""

    SUBMISSION = "submission"
    ORDER = "order"
    QUOTA = "quota"
    SHAPE = "shape"
    PREEMPTION = "preemption"
    WAITING_FOR = "waiting_for"


@dataclass(frozen=True, slots=True)
class QuotaLeft(Shown):
    """What *where* has left of *resource*, where no quota is in the way.  *of*: of so much that it was promised; null above the pool."""

    where: str
    resource: str
    have: int
    of: int | None = None


shown_as(QuotaLeft("pool vision", "default/gpu", 8, 32))


@dataclass(frozen=True, slots=True)
class Blocker(Shown):
    """One condition that is not met, judged as if all others were.  *tier*: submission, order, quota, shape, preemption or waiting_for.

    *flavors*: the choice of flavors, one for each pod set, that it blocks; empty: every choice."""

    tier: Tier
    flavors: tuple[str, ...]
    reason: Reason


shown_as(Blocker(Tier.QUOTA, ("default",), example(Reason)))
