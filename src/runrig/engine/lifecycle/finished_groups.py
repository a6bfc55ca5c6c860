"""The consequences of a finished group: other groups start or fail, and the workflow may finish (rule W1).

Generators of actions, as in `workflows`.
"""

from collections.abc import Iterable, Iterator

from runrig.domain.gangs import HOLDING
from runrig.domain.plan import Action, MoveGroup, MoveTask, MoveWorkflow, Release, Stop
from runrig.domain.workflows import ExitCode, Group, GroupKey, Status
from runrig.engine.lifecycle.outcomes import array_outcome, workflow_status
from runrig.engine.lifecycle.pausing import queued, starts_nothing
from runrig.engine.state.state import State


def go_on(state: State, key: GroupKey) -> Iterator[Action]:
    """Yields the consequences of a finished group: downstream groups start or fail, the next element of an array may start, and
    the workflow may finish.
    """
    workflow, status, array = state.workflows[key[0]], state.groups[key].status, state.spec_of(key[0]).array
    if array is not None and array.fail_fast and status.failed and status is not Status.FAILED_CANCELED:
        live = [group for group in state.groups_of(workflow.id) if not group.status.finished]
        yield from stop_groups(state, live, f"cancelled because element {key[1]} failed")
    elif array is None and status is not Status.COMPLETED:
        yield from _fail_downstream(state, key)
    elif not starts_nothing(state, workflow):
        yield from queued(state, workflow)
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
        if state.spec_of(workflow).array is not None:
            yield MoveWorkflow(workflow, *array_outcome(state.workflows[workflow], groups))
            return
        status = workflow_status([group.status for group in groups])
        message = next((group.failure_message for group in groups if group.status.failed and group.failure_message), "")
        yield MoveWorkflow(workflow, status, message=message)


def stop_groups(state: State, groups: Iterable[Group], message: str) -> Iterator[Action]:
    """Cancels *groups*, which have not ended. Groups that use nothing end immediately.

    Does not depend on its actions being applied, because the plan of a command is applied as a whole.
    """
    for group in groups:
        yield from stop_or_end(state, group, Status.FAILED_CANCELED, message)


def stop_or_end(state: State, group: Group, status: Status, message: str) -> Iterator[Action]:
    """Stops the pods of *group*, or ends it immediately if it has none."""
    if holds_nodes(state, group):
        yield from stop_pods(group, status, message)
        return
    if group.gang_id in state.ledger.entries:
        yield Release(group.gang_id)
    yield from end_waiting(state, (group.workflow, group.name), status, None, message)


def stop_pods(group: Group, status: Status, message: str) -> Iterator[Action]:
    """Stops the pods of *group*, which gets *status* once they have stopped."""
    yield MoveGroup(group.workflow, group.name, group.status, message=message, stopping=status)
    yield Stop(group.gang_id, status)


def holds_nodes(state: State, group: Group) -> bool:
    entry = state.ledger.entries.get(group.gang_id)
    return entry is not None and entry.state in HOLDING
