"""Kinds of events, by the words that users filter with."""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    DropNode,
    EndHold,
    Hold,
    MoveWorkflow,
    Preempt,
    PutNode,
    PutPool,
    Refuse,
    SetAside,
    Submit,
)
from runrig.domain.workflow_status import WorkflowStatus


class Kind(StrEnum):
    SUBMITTED = "submitted"
    STARTED = "started"
    PREEMPTED = "preempted"
    REFUSED = "refused"
    HELD = "held"
    ENDED = "ended"
    FAILED = "failed"
    RESIZED = "resized"
    NODES = "nodes"


def _resized(action: Action) -> bool:
    return isinstance(action, PutPool) and action.before is not None and action.pool.quotas != action.before.quotas


def _ended(action: Action) -> bool:
    return isinstance(action, Abandon) or (isinstance(action, MoveWorkflow) and action.status.finished)


def _failed(action: Action) -> bool:
    completed = isinstance(action, MoveWorkflow) and action.status is WorkflowStatus.COMPLETED
    return _ended(action) and not completed


_IS: Mapping[Kind, Callable[[Action], bool]] = {
    Kind.SUBMITTED: lambda action: isinstance(action, Submit),
    Kind.STARTED: lambda action: isinstance(action, Admit),
    Kind.PREEMPTED: lambda action: isinstance(action, Preempt),
    Kind.REFUSED: lambda action: isinstance(action, Refuse),
    Kind.HELD: lambda action: isinstance(action, Hold | EndHold | SetAside),
    Kind.ENDED: _ended,
    Kind.FAILED: _failed,
    Kind.RESIZED: _resized,
    Kind.NODES: lambda action: isinstance(action, PutNode | DropNode),
}


def is_of(action: Action, kinds: Collection[Kind]) -> bool:
    """Returns True if *action* is of one of *kinds*, or *kinds* is empty."""
    return not kinds or any(_IS[kind](action) for kind in kinds)
