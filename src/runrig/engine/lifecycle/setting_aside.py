"""Sets a workflow aside after an internal error, so that the others can continue (rule W8)."""

from runrig.domain.gangs import IN_QUEUE
from runrig.domain.plan import Abandon, Decision, Plan, Release, SetAside, Unqueue, Withdraw
from runrig.engine.state.state import State


def set_aside(state: State, workflow: str, error: str) -> Plan:
    """Removes waiting gangs of *workflow* from the queue; no gang waits for its stopping ones. *error*: the kind of failure."""
    decisions: dict[Decision, None] = {}
    for group in state.groups_of(workflow):
        entry = state.ledger.entries.get(group.gang_id)
        if entry is None:
            continue
        if entry.state in IN_QUEUE:
            decisions[Unqueue(group.gang_id)] = None
        for waiting in sorted(each.gang.id for each in state.ledger.waiting_for(group.gang_id)):
            decisions[Withdraw(waiting)] = None
    return Plan((*decisions, SetAside(workflow, error)))


def abandon(state: State, workflow: str, *, user: str, message: str) -> Plan:
    """Immediately ends a workflow that is set aside. *message*: stored in its rows."""
    gangs = [group.gang_id for group in state.groups_of(workflow) if group.gang_id in state.ledger.entries]
    return Plan((*map(Release, gangs), Abandon(workflow, user, message)))
