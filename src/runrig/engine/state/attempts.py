"""The next attempts of the pods of a group."""

from dataclasses import replace

from runrig.domain.workflows import Group, Status, Task
from runrig.engine.state.tables import Tables


def new_attempt(state: Tables, group: Group, status: Status) -> None:
    """Creates the next attempt of every pod of the group, including pods that a smaller gang had left out (rule A3)."""
    for spec in state.group_spec((group.workflow, group.name)).tasks:
        for index in range(spec.pods):
            name = spec.pod_name(index)
            # Count all attempts: a pod that was left out of the last attempt may have run before.
            retry = len(state.attempts(group.workflow, name))
            state.put_task(
                Task(group.workflow, name, retry, group.name, spec.name, index, spec.lead and index == 0, status)
            )


def queue_tasks(state: Tables, group: Group) -> None:
    """Queues the tasks of *group*; tasks that have run before get a new attempt."""
    tasks = state.current_tasks((group.workflow, group.name))
    if all(task.status is Status.WAITING for task in tasks):
        for task in tasks:
            state.put_task(replace(task, status=Status.SCHEDULING))
    else:
        new_attempt(state, group, Status.SCHEDULING)
