"""The next attempts of the pods of a group."""

from dataclasses import replace

from runrig.domain.workflows import Group, Status, Task
from runrig.engine.state.tables import Tables


def new_attempt(state: Tables, group: Group, status: Status) -> None:
    """Every pod of the group gets its next attempt; pods that a smaller gang had left out are back (law A3)."""
    for spec in state.group_spec((group.workflow, group.name)).tasks:
        for index in range(spec.pods):
            name = spec.pod_name(index)
            # Not from what is current: a pod left out of the last attempt has run before all the same.
            retry = len(state.attempts(group.workflow, name))
            state.put_task(
                Task(group.workflow, name, retry, group.name, spec.name, index, spec.lead and index == 0, status)
            )


def queue_tasks(state: Tables, group: Group) -> None:
    """The tasks of *group* wait in the queue; those that have run before with their next attempts."""
    tasks = state.current_tasks((group.workflow, group.name))
    if all(task.status is Status.WAITING for task in tasks):
        for task in tasks:
            state.put_task(replace(task, status=Status.SCHEDULING))
    else:
        new_attempt(state, group, Status.SCHEDULING)
