"""Finds the subject of an action: a workflow, a pool, or the cluster."""

from runrig.domain import plan
from runrig.domain.budgets import Owner, Scope
from runrig.domain.errors import FailedAt


def pool_of(action: plan.Action) -> str | None:
    """The pool that *action* changes; None if it does not change a pool."""
    if isinstance(action, plan.SetSpent) and action.spent.of == Owner.POOL:
        return action.spent.name
    if isinstance(action, plan.SetOwnerAside) and action.of == Owner.POOL:
        return action.name
    return action.pool.name if isinstance(action, plan.PutPool) else None


def failed_at(action: plan.Action) -> FailedAt | None:
    """The error if *action* fails: what it names can be set aside (rule W8). None: it is about the cluster."""
    workflow, owner = workflow_of(action), _owner_of(action)
    return FailedAt(workflow or "", owner) if workflow is not None or owner is not None else None


def _owner_of(action: plan.Action) -> Scope | None:
    match action:
        case plan.SetSpent(spent):
            return spent.scope
        case plan.PutPool(pool):
            return Owner.POOL, pool.name
    return None


def workflow_of(action: plan.Action) -> str | None:
    """The workflow that *action* changes; None if it is about the cluster."""
    match action:
        case plan.Submit(workflow):
            return workflow.id
        case plan.MoveTask(key) | plan.RetryTask(key) | plan.RestartTask(key):
            return key.workflow
        case plan.MoveGroup(id):
            return id
        case _ if isinstance(action, plan.WorkflowMove):
            return action.workflow
        case _ if isinstance(action, plan.Decision):
            return gang_id_of(action).partition("/")[0]
    return None


def gang_id_of(action: plan.Decision) -> str:
    """The id of the gang that *action* is about."""
    return action.gang.id if isinstance(action, plan.Queue) else action.gang
