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


def _any(_: Action) -> bool:
    return True


def _resized(action: Action) -> bool:
    return isinstance(action, PutPool) and action.before is not None and action.pool.quotas != action.before.quotas


def _ended(action: Action) -> bool:
    return isinstance(action, Abandon) or (isinstance(action, MoveWorkflow) and action.status.finished)


def _failed(action: Action) -> bool:
    completed = isinstance(action, MoveWorkflow) and action.status is WorkflowStatus.COMPLETED
    return _ended(action) and not completed


_IS: Mapping[Kind, tuple[tuple[type[Action], ...], Callable[[Action], bool]]] = {
    Kind.SUBMITTED: ((Submit,), _any),
    Kind.STARTED: ((Admit,), _any),
    Kind.PREEMPTED: ((Preempt,), _any),
    Kind.REFUSED: ((Refuse,), _any),
    Kind.HELD: ((Hold, EndHold, SetAside), _any),
    Kind.ENDED: ((Abandon, MoveWorkflow), _ended),
    Kind.FAILED: ((Abandon, MoveWorkflow), _failed),
    Kind.RESIZED: ((PutPool,), _resized),
    Kind.NODES: ((PutNode, DropNode), _any),
}
"""The actions that can be of a kind, and which of these are."""


def is_of(action: Action, kinds: Collection[Kind]) -> bool:
    """Whether *action* is of one of *kinds*, or *kinds* is empty."""
    return not kinds or any(isinstance(action, _IS[kind][0]) and _IS[kind][1](action) for kind in kinds)


def actions_of(kinds: Collection[Kind]) -> tuple[str, ...]:
    """Returns the sorted names of the actions that can be of *kinds*; empty if *kinds* is."""
    return tuple(sorted({action.__name__ for kind in kinds for action in _IS[kind][0]}))
