"""The state machines of gangs, groups and tasks (pools: `domain.pools.TRANSITIONS`).

The engine checks every step before it changes anything; `make docs` draws the tables.
"""

from collections.abc import Mapping

from runrig.domain.gangs import GangState
from runrig.domain.plan import (
    Action,
    Admit,
    MoveGroup,
    MoveTask,
    Nominate,
    Preempt,
    Queue,
    Refuse,
    Release,
    Replace,
    RestartTask,
    RetryTask,
    SetPriority,
    Stop,
    Submit,
    TryAgain,
    Unqueue,
    Withdraw,
)
from runrig.domain.workflows import Status


class IllegalStep(Exception):
    """The action is not possible in this state. Always a bug; nothing was changed."""


GANG: Mapping[tuple[GangState | None, type[Action]], GangState | None] = {
    (None, Queue): GangState.PENDING,
    (GangState.PENDING, TryAgain): GangState.PENDING,
    (GangState.PENDING, Nominate): GangState.NOMINATED,
    (GangState.PENDING, Admit): GangState.ADMITTED,
    (GangState.PENDING, Release): None,
    (GangState.PENDING, Unqueue): None,
    (GangState.NOMINATED, Withdraw): GangState.PENDING,
    (GangState.NOMINATED, Admit): GangState.ADMITTED,
    (GangState.NOMINATED, Release): None,
    (GangState.NOMINATED, Unqueue): None,
    (GangState.ADMITTED, Replace): GangState.ADMITTED,
    (GangState.ADMITTED, SetPriority): GangState.ADMITTED,
    (GangState.ADMITTED, Preempt): GangState.STOPPING,
    (GangState.ADMITTED, Refuse): GangState.STOPPING,
    (GangState.ADMITTED, Stop): GangState.STOPPING,
    (GangState.ADMITTED, Release): None,
    (GangState.STOPPING, Stop): GangState.STOPPING,
    (GangState.STOPPING, TryAgain): GangState.STOPPING,
    (GangState.STOPPING, Release): None,
}
"""None: not in the ledger."""

GANG_STATES: Mapping[type[Action], tuple[GangState | None, ...]] = {
    action: tuple(state for state, event in GANG if event is action) for _, action in GANG
}
"""Action → the states in which it is legal: `GANG` by its second key, for fast lookups by the ledger."""


_ENDS_ON_NODES = (
    Status.COMPLETED,
    Status.FAILED,
    Status.FAILED_CANCELED,
    Status.FAILED_SERVER_ERROR,
    Status.FAILED_BACKEND_ERROR,
    Status.FAILED_EXEC_TIMEOUT,
    Status.FAILED_EVICTED,
    Status.FAILED_PREEMPTED,
)
_ENDS_OF_TASKS = (
    *_ENDS_ON_NODES,
    Status.FAILED_IMAGE_PULL,
    Status.FAILED_START_ERROR,
    Status.FAILED_START_TIMEOUT,
    Status.RESCHEDULED,
)
_ENDS_BEFORE = (Status.FAILED_CANCELED, Status.FAILED_UPSTREAM)
_ENDS_IN_QUEUE = (Status.FAILED_CANCELED, Status.FAILED_QUEUE_TIMEOUT)

Steps = Mapping[tuple[Status | None, type[Action]], tuple[Status | None, ...]]
"""(status, action) → the statuses that can follow. None: it does not exist."""

GROUP: Steps = {
    (None, Submit): (Status.WAITING,),
    (Status.WAITING, Queue): (Status.SCHEDULING,),
    (Status.WAITING, MoveGroup): _ENDS_BEFORE,
    (Status.SCHEDULING, Unqueue): (Status.WAITING,),
    (Status.SCHEDULING, Admit): (Status.INITIALIZING,),
    (Status.SCHEDULING, MoveGroup): _ENDS_IN_QUEUE,
    (Status.INITIALIZING, Preempt): (Status.INITIALIZING,),
    (Status.INITIALIZING, Refuse): (Status.INITIALIZING,),
    (Status.INITIALIZING, Stop): (Status.INITIALIZING,),
    (Status.INITIALIZING, MoveGroup): (Status.INITIALIZING, Status.RUNNING, *_ENDS_ON_NODES),
    (Status.RUNNING, Preempt): (Status.RUNNING,),
    (Status.RUNNING, Refuse): (Status.RUNNING,),
    (Status.RUNNING, Stop): (Status.RUNNING,),
    (Status.RUNNING, MoveGroup): (Status.RUNNING, *_ENDS_ON_NODES),
    (Status.FAILED_PREEMPTED, Queue): (Status.SCHEDULING,),
    (Status.FAILED_BACKEND_ERROR, Queue): (Status.SCHEDULING,),
    (Status.FAILED_EVICTED, Queue): (Status.SCHEDULING,),
}
"""A group that is stopping keeps its status until its pods have stopped (`Group.stopping`)."""

TASK: Steps = {
    (None, Submit): (Status.WAITING,),
    (None, Queue): (Status.SCHEDULING,),
    (None, RetryTask): (Status.INITIALIZING,),
    (Status.WAITING, Queue): (Status.SCHEDULING,),
    (Status.WAITING, MoveTask): _ENDS_BEFORE,
    (Status.SCHEDULING, Unqueue): (Status.WAITING,),
    (Status.SCHEDULING, Admit): (Status.INITIALIZING, None),
    (Status.SCHEDULING, MoveTask): _ENDS_IN_QUEUE,
    (Status.INITIALIZING, RestartTask): (Status.INITIALIZING,),
    (Status.INITIALIZING, MoveTask): (Status.RUNNING, *_ENDS_OF_TASKS),
    (Status.RUNNING, RestartTask): (Status.RUNNING,),
    (Status.RUNNING, MoveTask): _ENDS_OF_TASKS,
    (Status.RESCHEDULED, RetryTask): (Status.RESCHEDULED,),
}
"""One attempt of a pod. The next one starts with `Queue` of its group or with `RetryTask`; `Admit` removes pods that were not granted."""


def check(steps: Steps, name: object, status: Status | None, action: type[Action], then: Status | None) -> None:
    """Raises IllegalStep if *action* cannot take *name* from *status* to *then*."""
    if then not in steps.get((status, action), ()):
        was, becomes = (each.value if each else "missing" for each in (status, then))
        raise IllegalStep(f"{name} is {was}: {action.__name__} cannot make it {becomes}")


def illegal_for_gang(gang: str, state: GangState | None, action: type[Action]) -> IllegalStep:
    return IllegalStep(f"{gang} is {state.value if state else 'missing'}: {action.__name__} is not possible")
