"""Workflows on hold: their groups that have not started stay outside the queue (rule W3).

Their gangs are not in the ledger, so they cost a cycle nothing and never start, preempt or block others.
"""

from runrig.domain.errors import Conflict
from runrig.domain.plan import Action, EndHold, Hold, Plan, Unqueue
from runrig.domain.workflows import Status
from runrig.engine.lifecycle.living import living
from runrig.engine.lifecycle.pausing import queued
from runrig.engine.state.state import State


def put_on_hold(state: State, workflow_id: str, *, user: str) -> Plan:
    """Removes the groups that have not started from the queue; running groups continue.

    Raises NotFound, and Conflict if the workflow has ended, is already on hold, or has started completely.
    """
    workflow = living(state, workflow_id)
    if workflow.held_by is not None:
        raise Conflict(
            f"{workflow_id} was already put on hold by {workflow.held_by}. Release it with `runrig workflow release`"
        )
    groups = state.groups_of(workflow_id)
    if not any(group.status in (Status.WAITING, Status.SCHEDULING) for group in groups):
        raise Conflict(
            f"all groups of {workflow_id} have started, so it cannot be put on hold. Stop it with `runrig workflow cancel`"
        )
    queued = [group.gang_id for group in groups if group.status is Status.SCHEDULING]
    return Plan((Hold(workflow_id, user), *map(Unqueue, queued)))


def end_hold(state: State, workflow_id: str) -> Plan:
    """Queues the held groups that do not wait for other groups or workflows, with the workflow's original submit time (rule P4).

    Raises NotFound, and Conflict if the workflow has ended or is not on hold.
    """
    workflow = living(state, workflow_id)
    if workflow.held_by is None:
        raise Conflict(f"{workflow_id} is not on hold")
    actions: list[Action] = [EndHold(workflow_id)]
    if not state.budgets.keep_back(state.pools, workflow):
        actions += queued(state, workflow)
    return Plan(tuple(actions))
