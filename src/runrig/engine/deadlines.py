"""When groups time out: in the queue since they were queued, on nodes since their first task ran."""

from typing import NamedTuple

from runrig.domain.workflows import Group, Status, WorkflowSpec


class Deadline(NamedTuple):
    """*cause*: the status that the group takes at *at*.  The earliest comes first."""

    at: float
    workflow: str
    group: str
    cause: str


def deadline_of(spec: WorkflowSpec, group: Group) -> Deadline | None:
    """The next one of *group*; None if it has none, or stops already."""
    if group.stopping is not None:
        return None
    if group.status is Status.SCHEDULING and group.queued_time is not None and spec.queue_timeout_s is not None:
        cause = Status.FAILED_QUEUE_TIMEOUT.value
        return Deadline(group.queued_time + spec.queue_timeout_s, group.workflow, group.name, cause)
    if group.status is Status.RUNNING and group.start_time is not None and spec.exec_timeout_s is not None:
        cause = Status.FAILED_EXEC_TIMEOUT.value
        return Deadline(group.start_time + spec.exec_timeout_s, group.workflow, group.name, cause)
    return None
