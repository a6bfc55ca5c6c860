"""Numbers of workflows, kept so that no submission has to count all of them."""

from runrig.domain.limits import EVERYWHERE
from runrig.domain.pools import top_level
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow
from runrig.engine.state.tables import Tables


def count(state: Tables, workflow: Workflow, by: int) -> None:
    """Adds *by* workflows like *workflow* to `State.alive` and `State.waiting`."""
    if not workflow.status.finished:
        state.alive[workflow.pool] += by
    if workflow.status is WorkflowStatus.PENDING:
        for pool in (top_level(workflow.pool), EVERYWHERE):
            state.waiting[pool, workflow.submitted_by] += by
