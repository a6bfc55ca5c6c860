"""The status of workflows, in a module of its own: client commands need only this, and start faster without the rest."""

from runrig.domain.value import Word

UNNUMBERED = "?"
"""Stands for the number of a workflow that is not submitted. Workflow names cannot contain it."""


def without_number(id: str) -> str:
    """``train`` for ``train-?``, the id of a workflow in a dry run; other ids unchanged."""
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
