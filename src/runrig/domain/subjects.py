"""What an action is about: a workflow, a pool, or the cluster."""

from typing import assert_never

from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    DropCohort,
    DropNode,
    EndHold,
    Hold,
    MoveGroup,
    MoveTask,
    MoveWorkflow,
    Nominate,
    Preempt,
    PutCohort,
    PutNode,
    PutPool,
    Queue,
    Reassign,
    Refuse,
    Release,
    Replace,
    RestartTask,
    RetryTask,
    SetAside,
    SetFlavors,
    Stop,
    Submit,
    TryAgain,
    Unqueue,
    Withdraw,
)


def pool_of(action: Action) -> str | None:
    """The pool that *action* changes; None if it does not change a pool."""
    return action.pool.name if isinstance(action, PutPool) else None


def workflow_of(action: Action) -> str | None:
    """The workflow that *action* changes; None if it is about the cluster."""
    match action:
        case Submit(workflow=workflow):
            return workflow.id
        case MoveTask(key=key) | RetryTask(key=key) | RestartTask(key=key):
            return key.workflow
        case MoveGroup(workflow=id) | MoveWorkflow(workflow=id):
            return id
        case Hold(workflow=id) | EndHold(workflow=id) | Reassign(workflow=id):
            return id
        case SetAside(workflow=id) | Abandon(workflow=id):
            return id
        case Queue(gang=gang):
            return gang.workflow
        case (
            Unqueue(gang=id)
            | Nominate(gang=id)
            | Withdraw(gang=id)
            | Preempt(gang=id)
            | Stop(gang=id)
            | Admit(gang=id)
            | Replace(gang=id)
            | Refuse(gang=id)
            | TryAgain(gang=id)
            | Release(gang=id)
        ):
            return id.partition("/")[0]
        case SetFlavors() | PutNode() | DropNode() | PutCohort() | DropCohort() | PutPool():
            return None
    assert_never(action)
