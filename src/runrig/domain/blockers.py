"""What stands between a gang and its start, and what the engine says of a changed state."""

import enum
from dataclasses import dataclass

from runrig.domain.reasons import Reason


class Verdict(enum.Enum):
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


class Tier(enum.Enum):
    """What kind of condition is not met.  They are told in this order; the first is the headline."""

    SUBMISSION = "submission"
    ORDER = "order"
    QUOTA = "quota"
    SHAPE = "shape"
    PREEMPTION = "preemption"
    WAITING_FOR = "waiting_for"


@dataclass(frozen=True, slots=True)
class Left:
    """What *where* has left of *resource* (``flavor/resource``), whose quota is no blocker.

    *of*: of so much that it was promised; None above the pool.
    """

    where: str
    resource: str
    have: int
    of: int | None = None


@dataclass(frozen=True, slots=True)
class Blocker:
    """A condition that is not met, judged as if all others were.

    *flavors*: of its pod sets, if it concerns only this choice; empty: whatever they take.
    """

    tier: Tier
    reason: Reason
    flavors: tuple[str, ...] = ()
