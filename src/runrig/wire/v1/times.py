"""Where the time of a workflow went."""

from datetime import datetime

from runrig.wire.base import example
from runrig.wire.v1.base import Shown


class WorkflowTimes(Shown):
    """Seconds: each moment from the submission to the end, or to now, counts in one of *running_s* to *blocked_s*, and *total_s* is all.

    *running_s*: pods ran.  *starting_s*: admitted, but nothing ran yet.  *waited_s*: in the queue, *waits* times.  *held_s*: on hold.
    *blocked_s*: waited for its own groups.  *lost_s*: the part of running and starting of attempts that were preempted, drained, or lost
    with their node or backend.  *now*: running, starting, waited, held or blocked, *since* when; null: it has ended.
    """

    model_config = example(
        {
            "running_s": 12.4,
            "starting_s": 0.1,
            "waited_s": 0.06,
            "held_s": 0.0,
            "blocked_s": 0.0,
            "lost_s": 0.0,
            "total_s": 12.56,
            "waits": 1,
            "now": "running",
            "since": "2026-01-31T12:00:00.160000Z",
        }
    )

    running_s: float
    starting_s: float
    waited_s: float
    held_s: float
    blocked_s: float
    lost_s: float
    total_s: float
    waits: int
    now: str | None
    since: datetime
