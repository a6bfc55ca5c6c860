"""Arrays: cancelling one element, and changing how many may run at a time (rule W4).

The queue, quota and placement do not know arrays: each element is a group like any other, and those beyond the limit are
WAITING (`pausing.queued`).
"""

from dataclasses import replace

from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.domain.natural_order import ranged
from runrig.domain.plan import Action, MoveWorkflow, Plan, SetMost, Unqueue
from runrig.domain.workflows import MOST_ELEMENTS, UNDER_WAY, Array, Status, WorkflowSpec
from runrig.engine.lifecycle.finished_groups import holds_nodes, stop_groups
from runrig.engine.lifecycle.limits import check_gpus
from runrig.engine.lifecycle.living import living
from runrig.engine.lifecycle.outcomes import array_outcome
from runrig.engine.lifecycle.pausing import queued, starts_nothing
from runrig.engine.state.state import State


def cancel_element(state: State, workflow_id: str, element: str, *, user: str, message: str = "") -> Plan:
    """Stops one element; the next one that waits takes its turn.

    Raises NotFound, and Conflict if the element or the workflow has ended, or the workflow is set aside.
    """
    workflow = living(state, workflow_id)
    check_element(workflow_id, state.spec_of(workflow_id), element)
    group = state.groups[workflow_id, element]
    if group.status.finished:
        raise Conflict(f"{group.gang_id} is already {group.status.value}")
    if workflow.set_aside:
        raise Conflict(f"{workflow_id} is set aside. Cancel or release all of it")
    message = f"cancelled by {user}" + (f": {message}" if message else "")
    actions: list[Action] = list(stop_groups(state, [group], message))
    if holds_nodes(state, group):
        return Plan(tuple(actions))
    ended = replace(group, status=Status.FAILED_CANCELED, failure_message=message)
    groups = [ended if each.name == element else each for each in state.groups_of(workflow_id)]
    if all(each.status.finished for each in groups):
        actions.append(MoveWorkflow(workflow_id, *array_outcome(workflow, groups)))
    elif not starts_nothing(state, workflow):
        actions += queued(state, workflow, groups)
    return Plan(tuple(actions))


def set_most(state: State, workflow_id: str, most: int) -> Plan:
    """Lets *most* elements run at a time. What is on nodes continues; the last of the queue leave it if there are too many.

    Raises NotFound; Conflict if it has ended, is not an array, or has that limit; InvalidInput; Refused (rule W6).
    """
    workflow = living(state, workflow_id)
    _array(workflow_id, state.spec_of(workflow_id))
    if not 1 <= most <= MOST_ELEMENTS:
        raise InvalidInput.one(f"most: {most} is out of range. Use 1 to {MOST_ELEMENTS:,}", "most")
    if most == workflow.most:
        raise Conflict(f"{workflow_id} already runs at most {most} of its elements at a time")
    after = replace(workflow, most=most)
    if workflow.most is not None and most > workflow.most:
        check_gpus(state, after, state.spec_of(workflow_id), who=workflow_id)
    surplus = state.groups.number(workflow_id, *UNDER_WAY) - most
    actions: list[Action] = [SetMost(workflow_id, most)]
    if surplus > 0:
        waiting = [group.gang_id for group in state.groups_of(workflow_id) if group.status is Status.SCHEDULING]
        actions += map(Unqueue, waiting[-surplus:])
    elif not starts_nothing(state, workflow):
        actions += queued(state, after)
    return Plan(tuple(actions))


def check_element(workflow: str, spec: WorkflowSpec, element: str) -> None:
    """Raises Conflict if *spec*, of *workflow*, is not an array; NotFound if it has no such element."""
    indices = _array(workflow, spec).indices
    if element not in map(str, indices):
        raise NotFound(f"{workflow} has no element {element!r:.80}. Its elements are {', '.join(ranged(indices))}")


def _array(workflow: str, spec: WorkflowSpec) -> Array:
    if spec.array is None:
        raise Conflict(f"{workflow} is not an array: it has no elements")
    return spec.array
