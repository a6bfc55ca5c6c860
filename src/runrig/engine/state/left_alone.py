"""Rows of a workflow that is set aside: they are left alone, resumed, or ended as they are (rule W8).

`lifecycle.setting_aside` decides about its gangs.
"""

from heapq import heappush

from runrig.domain.plan import Abandon
from runrig.domain.replacing import replace
from runrig.domain.workflows import Status
from runrig.engine.state.deadlines import deadlines_of
from runrig.engine.state.tables import Tables


def leave_alone(state: Tables, workflow: str) -> None:
    """Excludes *workflow* from cycles and from preemption."""
    state.aside.add(workflow)
    for group in state.groups_of(workflow):
        if group.gang_id in state.ledger.entries:
            state.ledger.leave_alone(group.gang_id)


def take_up(state: Tables, workflow: str) -> None:
    """The inverse of `leave_alone`."""
    state.aside.remove(workflow)
    for group in state.groups_of(workflow):
        state.ledger.take_up(group.gang_id)
        for deadline in deadlines_of(state.spec_of(workflow), group):
            heappush(state.deadlines, deadline)


def end_all(state: Tables, action: Abandon, at: float) -> None:
    """Ends all groups and tasks, whatever their status. The transition tables do not apply, because these rows caused an error."""
    status, message = Status.FAILED_CANCELED, action.message
    for group in state.groups_of(action.workflow):
        for task in state.current_tasks((group.workflow, group.name)):
            if not task.status.finished:
                state.put_task(replace(task, status=status, end_time=at, failure_message=message))
        if not group.status.finished:
            state.put_group(replace(group, status=status, stopping=None, end_time=at, failure_message=message))
