"""Looks up the workflow that a user wants to change."""

from runrig.domain.errors import Conflict, NotFound
from runrig.domain.workflows import Workflow
from runrig.engine.state.state import State


def living(state: State, id: str) -> Workflow:
    """The workflow *id*. Raises NotFound, and Conflict if it has ended and is not stored yet."""
    workflow = state.workflows.get(id)
    if workflow is None:
        raise NotFound(f"unknown workflow {id!r}, or it has ended. List workflows with `runrig workflow list`")
    if workflow.status.finished:
        raise Conflict(f"{id} is already {workflow.status.value}")
    return workflow
