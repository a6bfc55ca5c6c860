"""The conditions that keep a gang from starting, and the engine's verdict on it."""

from dataclasses import dataclass

from runrig.domain.reasons import Reason
from runrig.domain.value import Shown, Word, example, shown_as


class Verdict(Word):
    """The effect of the next cycle on a gang.

    STARTS: it is admitted. STARTS_AFTER_STOPS: it is nominated, and starts when its targets have stopped. WAITS:
    neither.
    NOT_PROVEN: the search limit was reached first. REFUSED: the submission gate would reject it.
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
    """The kind of condition that is not met. Blockers are listed in this order; the first is the headline."""

    SUBMISSION = "submission"
    ORDER = "order"
    QUOTA = "quota"
    SHAPE = "shape"
    PREEMPTION = "preemption"
    WAITING_FOR = "waiting_for"


@dataclass(frozen=True, slots=True)
class QuotaLeft(Shown):
    """The amount of *resource* left at *where*, if quota is not the problem. *of*: its guaranteed quota; null above the
    pool.
    """

    where: str
    resource: str
    have: int
    of: int | None = None


shown_as(QuotaLeft("pool vision", "default/gpu", 8, 32))


@dataclass(frozen=True, slots=True)
class Blocker(Shown):
    """One condition that is not met, assuming that all others are.

    *tier*: submission, order, quota, shape, preemption or waiting_for.
    *flavors*: the choice of flavors that it blocks, one flavor per pod set; empty: every choice.
    """

    tier: Tier
    flavors: tuple[str, ...]
    reason: Reason


shown_as(Blocker(Tier.QUOTA, ("default",), example(Reason)))
