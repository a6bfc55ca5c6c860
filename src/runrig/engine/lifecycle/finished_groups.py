"""The consequences of a finished group: other groups start or fail, and the workflow may finish (rule W1).

Generators of actions, as in `workflows`.
"""

from collections.abc import Iterator

from runrig.domain.plan import Action, MoveGroup, MoveTask, MoveWorkflow
from runrig.domain.workflows import ExitCode, GroupKey, Status
from runrig.engine.lifecycle.outcomes import workflow_status
from runrig.engine.lifecycle.pausing import queued, starts_nothing
from runrig.engine.state.state import State


def go_on(state: State, key: GroupKey) -> Iterator[Action]:
    """Yields the consequences of a finished group: downstream groups start or fail, and the workflow may finish."""
    if state.groups[key].status is Status.COMPLETED:
        workflow = state.workflows[key[0]]
        for group in [] if starts_nothing(state, workflow) else state.groups_of(workflow.id):
            yield from queued(state, workflow, group)
    else:
        yield from _fail_downstream(state, key)
    yield from finish_workflow(state, key[0])


def _fail_downstream(state: State, key: GroupKey) -> Iterator[Action]:
    """Ends all groups downstream of one that did not complete, nearest first. O(edges of the graph).

    A group can be reached by several paths, so its status is read when it is reached, not at the start.
    """
    workflow, failed = key[0], [key[1]]
    behind: dict[str, list[str]] = {}
    for spec in state.spec_of(workflow).groups:
        for name in spec.upstream:
            behind.setdefault(name, []).append(spec.name)
    for name in failed:
        for each in behind.get(name, ()):
            if state.groups[workflow, each].status is Status.WAITING:
                message = f"group {name} before it did not complete"
                yield from end_waiting(state, (workflow, each), Status.FAILED_UPSTREAM, ExitCode.UPSTREAM, message)
                failed.append(each)


def end_waiting(state: State, key: GroupKey, status: Status, code: int | None, message: str) -> Iterator[Action]:
    """Ends a group that uses nothing."""
    for task in state.current_tasks(key):
        if not task.status.finished:
            yield MoveTask(task.key, status, code, message)
    yield MoveGroup(*key, status, message=message)


def finish_workflow(state: State, workflow: str) -> Iterator[Action]:
    """Ends *workflow* if all its groups have ended."""
    if all(status.finished for status in state.groups.statuses(workflow)):
        groups = state.groups_of(workflow)
        status = workflow_status([group.status for group in groups])
        message = next((group.failure_message for group in groups if group.status.failed and group.failure_message), "")
        yield MoveWorkflow(workflow, status, message=message)
