"""How a workflow spent its time: each moment from its submission to its end, or to now, has exactly one class.

So the classes add up to the total.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass

from runrig.domain.replacing import replace
from runrig.domain.workflow_status import WorkflowStatus

FOLLOWS = "follows from the log"
"""Metadata of a field that is not stored. True: no action carries it, because replaying the actions computes it. The name of
another field: it is computed from that one, unless that one is None."""
_DIGITS = 6
"""Times are rounded to microseconds."""


class Moment(enum.Enum):
    """The activity of a workflow at a moment: the first of these that applies.

    RUNNING: some group has running pods; this includes their grace period. STARTING: some group was admitted. WAITED:
    some group is in the queue, with reserved nodes or without. HELD: it is on hold. BLOCKED: it waits for its own
    groups.
    """

    RUNNING = "running"
    STARTING = "starting"
    WAITED = "waited"
    HELD = "held"
    BLOCKED = "blocked"


Interval = tuple[float, float]
"""Start and end, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each class up to *since*. From then on it is in class *now*; None: it has ended.

    *waits*: how often it waited. *lost*: when attempts started or ran that ended by preemption, a drain, a lost node or a
    failed backend; sorted and disjoint.
    """

    since: float
    now: Moment | None
    running: float = 0.0
    starting: float = 0.0
    waited: float = 0.0
    held: float = 0.0
    blocked: float = 0.0
    waits: int = 0
    lost: tuple[Interval, ...] = ()

    def until(self, at: float) -> "Times":
        """The times including everything up to *at*."""
        if self.now is None or at <= self.since:
            return self
        name = self.now.value
        passed = round(getattr(self, name) + at - self.since, _DIGITS)
        return replace(self, since=at, **{name: passed})

    def moved(self, at: float, to: Moment | None) -> "Times":
        """The times with class *to* from *at* on. Returns itself if that is already its class."""
        if to is self.now:
            return self
        in_vain = self.now is Moment.WAITED and at <= self.since  # it started at the moment it was queued
        return replace(self.until(at), since=at, now=to, waits=self.waits + (to is Moment.WAITED) - in_vain)

    def losing(self, begin: float, end: float) -> "Times":
        """Marks the time from *begin* to *end* as lost."""
        apart = [each for each in self.lost if each[1] < begin or end < each[0]]
        whole = [each for each in self.lost if each not in apart] + [(begin, end)]
        joined = min(first for first, _ in whole), max(last for _, last in whole)
        return replace(self, lost=tuple(sorted([*apart, joined]))) if begin < end else self

    @property
    def lost_s(self) -> float:
        return round(sum(end - begin for begin, end in self.lost), _DIGITS)

    @property
    def total_s(self) -> float:
        return round(self.running + self.starting + self.waited + self.held + self.blocked, _DIGITS)


def as_far_as_known(
    submit_time: float, start_time: float | None, end_time: float | None, status: WorkflowStatus
) -> Times:
    """The times of a workflow of an older release, which did not record them: it waited until it first ran, and then ran."""
    ran = start_time is not None and status is not WorkflowStatus.PENDING
    first = Times(submit_time, Moment.WAITED, waits=1)
    begun = first if start_time is None else first.moved(start_time, Moment.RUNNING if ran else Moment.WAITED)
    return begun if end_time is None else begun.moved(end_time, None)


def moment_of(statuses: Collection[str], *, held: bool) -> Moment:
    """The class of a workflow that has not ended. *statuses*: the names of the statuses of its groups."""
    for status, moment in _BY_STATUS:
        if status in statuses:
            return moment
    return Moment.HELD if held else Moment.BLOCKED


_BY_STATUS = (("RUNNING", Moment.RUNNING), ("INITIALIZING", Moment.STARTING), ("SCHEDULING", Moment.WAITED))
