"""Finds the subject of an action: a workflow, a pool, or the cluster."""

from typing import assert_never

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
        case plan.Submit(workflow=workflow):
            return workflow.id
        case plan.MoveTask(key=key) | plan.RetryTask(key=key) | plan.RestartTask(key=key):
            return key.workflow
        case plan.MoveGroup(workflow=id) | plan.MoveWorkflow(workflow=id):
            return id
        case plan.Hold(workflow=id) | plan.EndHold(workflow=id) | plan.Reassign(workflow=id):
            return id
        case plan.SetAside(workflow=id) | plan.Abandon(workflow=id) | plan.SetMost(workflow=id):
            return id
        case plan.Queue(gang=gang):
            return gang.workflow
        case (
            plan.Unqueue(gang=id)
            | plan.Nominate(gang=id)
            | plan.Withdraw(gang=id)
            | plan.Preempt(gang=id)
            | plan.Stop(gang=id)
            | plan.Admit(gang=id)
            | plan.Replace(gang=id)
            | plan.Refuse(gang=id)
            | plan.TryAgain(gang=id)
            | plan.SetPriority(gang=id)
            | plan.Release(gang=id)
        ):
            return id.partition("/")[0]
        case plan.SetFlavors() | plan.PutNode() | plan.DropNode() | plan.PutCohort() | plan.DropCohort():
            return None
        case plan.PutPool() | plan.PutLimits() | plan.SetSpent() | plan.SetOwnerAside():
            return None
    assert_never(action)
