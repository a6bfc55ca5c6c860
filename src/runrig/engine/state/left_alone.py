"""What becomes of the rows of a workflow at which the server failed: they are left alone, taken up again, or ended as they are (law W8).

What happens to its gangs are decisions of their own (`lifecycle.setting_aside`).
"""

from dataclasses import replace
from heapq import heappush

from runrig.domain.plan import Abandon
from runrig.domain.workflows import Status
from runrig.engine.state.deadlines import deadlines_of
from runrig.engine.state.tables import Tables


def leave_alone(state: Tables, workflow: str) -> None:
    """No cycle looks at *workflow*, and nobody may preempt what runs of it."""
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
    """Groups and tasks end whatever they are now, past all tables of steps: they are rows at which these failed."""
    status, message = Status.FAILED_CANCELED, action.message
    for group in state.groups_of(action.workflow):
        for task in state.current_tasks((group.workflow, group.name)):
            if not task.status.finished:
                state.put_task(replace(task, status=status, end_time=at, failure_message=message))
        if not group.status.finished:
            state.put_group(replace(group, status=status, stopping=None, end_time=at, failure_message=message))
