"""How far a workflow has come, apart from what it is: commands of the client know no more of it, and start without the rest."""

from runrig.domain.value import Word

UNNUMBERED = "?"
"""In the place of the number of a workflow that is not submitted; no name of a workflow has it."""


def without_number(id: str) -> str:
    """``train`` for ``train-?``, the id of a workflow that was only looked at; other ids as they are."""
    return id.removesuffix(f"-{UNNUMBERED}")


class WorkflowStatus(Word):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    FAILED_CANCELED = "FAILED_CANCELED"
    FAILED_SERVER_ERROR = "FAILED_SERVER_ERROR"
    FAILED_BACKEND_ERROR = "FAILED_BACKEND_ERROR"
    FAILED_EXEC_TIMEOUT = "FAILED_EXEC_TIMEOUT"
    FAILED_QUEUE_TIMEOUT = "FAILED_QUEUE_TIMEOUT"
    FAILED_EVICTED = "FAILED_EVICTED"
    FAILED_START_ERROR = "FAILED_START_ERROR"
    FAILED_START_TIMEOUT = "FAILED_START_TIMEOUT"
    FAILED_PREEMPTED = "FAILED_PREEMPTED"

    @property
    def finished(self) -> bool:
        return self not in (WorkflowStatus.PENDING, WorkflowStatus.RUNNING)
