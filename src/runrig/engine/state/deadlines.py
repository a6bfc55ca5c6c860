"""When groups time out, in the queue since they were queued, on nodes since their first task ran; and when refused ones are tried again."""

from typing import NamedTuple

from runrig.domain.workflows import Group, Status, WorkflowSpec

AGAIN_S, LONGEST_AGAIN_S = 300.0, 3600.0
"""After the first refusal, and at most; twice as long after each (law T7)."""

RETRY = ""


class Deadline(NamedTuple):
    """*cause*: the status that the group takes at *at*, or `RETRY`.  The earliest comes first."""

    at: float
    workflow: str
    group: str
    cause: str


def deadlines_of(spec: WorkflowSpec, group: Group) -> tuple[Deadline, ...]:
    """Those of *group*; none if it stops already.  It may have been tried again since it was refused."""
    if group.stopping is not None:
        return ()
    found = []
    if group.status is Status.SCHEDULING and group.queued_time is not None:
        if spec.queue_timeout_s is not None:
            found.append((group.queued_time + spec.queue_timeout_s, Status.FAILED_QUEUE_TIMEOUT.value))
        if group.refusals:
            found.append((group.queued_time + retry_after_s(group.refusals), RETRY))
    if group.status is Status.RUNNING and group.start_time is not None and spec.exec_timeout_s is not None:
        found.append((group.start_time + spec.exec_timeout_s, Status.FAILED_EXEC_TIMEOUT.value))
    return tuple(Deadline(at, group.workflow, group.name, cause) for at, cause in found)


def retry_after_s(refusals: int) -> float:
    return min(AGAIN_S * 2.0 ** min(refusals - 1, 10), LONGEST_AGAIN_S)
