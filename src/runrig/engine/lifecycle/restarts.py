"""The groups that a restart of a failed workflow runs again, if it keeps the COMPLETED ones."""

from collections.abc import Iterable
from dataclasses import replace

from runrig.domain.workflows import Group, Status, Task, WorkflowSpec


def without_completed(spec: WorkflowSpec, groups: Iterable[Group], tasks: Iterable[Task]) -> WorkflowSpec:
    """Returns *spec* without the groups that are COMPLETED in *groups*; the others read the outputs of those.

    *tasks*: all attempts. Unchanged if no group is COMPLETED. O(tasks).
    """
    completed = {group.name for group in groups if group.status is Status.COMPLETED}
    if not completed:
        return spec
    if (array := spec.array) is not None:
        left = tuple(index for index in array.indices if str(index) not in completed)
        return replace(spec, groups=(), array=replace(array, indices=left))
    remaining = tuple(
        replace(group, upstream=tuple(name for name in group.upstream if name not in completed))
        for group in spec.groups
        if group.name not in completed
    )
    outputs = {task.name: task.key for task in tasks if task.status is Status.COMPLETED}
    available = dict(spec.linked) | {
        task.name: tuple(outputs[pod] for pod in map(task.pod_name, range(task.pods)) if pod in outputs)
        for group in spec.groups
        if group.name in completed
        for task in group.tasks
    }
    inputs = {name for group in remaining for task in group.tasks for name in task.inputs}
    read = sorted(inputs & available.keys())
    return replace(spec, groups=remaining, linked={name: available[name] for name in read})
