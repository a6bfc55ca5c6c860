"""What stands between a gang and its start, and what the engine says of a changed state."""

import enum


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
