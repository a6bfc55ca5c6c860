"""When a group times out, and when a refused gang is tried again.

Time in the queue counts from when the group was queued, run time from when its first task started.
"""

from typing import NamedTuple

from runrig.domain.workflows import Group, Status, WorkflowSpec

AGAIN_S, LONGEST_AGAIN_S = 300.0, 3600.0
"""Wait after the first refusal, doubled after each further one, and the maximum (rule T7), in seconds."""

RETRY = ""


class GroupDeadline(NamedTuple):
    """*cause*: the status that the group gets at time *at*, or `RETRY`. Sorts by time."""

    at: float
    workflow: str
    group: str
    cause: str


def deadlines_of(spec: WorkflowSpec, group: Group) -> tuple[GroupDeadline, ...]:
    """The deadlines of *group*; none while it is stopping. A retry deadline may be outdated."""
    if group.stopping is not None:
        return ()
    due = []
    if group.status is Status.SCHEDULING and group.queued_time is not None:
        if spec.queue_timeout_s is not None:
            due.append((group.queued_time + spec.queue_timeout_s, Status.FAILED_QUEUE_TIMEOUT.value))
        if group.refusals:
            due.append((group.queued_time + retry_after_s(group.refusals), RETRY))
    if group.status is Status.RUNNING and group.start_time is not None and spec.exec_timeout_s is not None:
        due.append((group.start_time + spec.exec_timeout_s, Status.FAILED_EXEC_TIMEOUT.value))
    return tuple(GroupDeadline(at, group.workflow, group.name, cause) for at, cause in due)


def retry_after_s(refusals: int) -> float:
    """Seconds until a gang that was refused *refusals* times is tried again."""
    return min(AGAIN_S * 2.0 ** min(refusals - 1, 10), LONGEST_AGAIN_S)
