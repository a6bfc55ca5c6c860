"""How many pods a workflow requested, its minimum, and how many it got (rule A1)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runrig.domain.quantities import gpus_in
from runrig.domain.shown.workflows import PodCount
from runrig.domain.workflows import Group, GroupSpec, Status, Task, WorkflowSpec, left_out

_WAITS = (Status.WAITING, Status.SCHEDULING)


def pod_counts(spec: GroupSpec, group: Group, tasks: Iterable[Task]) -> tuple[PodCount, ...]:
    """In the order of the file. *tasks*: all attempts of the workflow."""
    latest: dict[str, Task] = {}
    for task in sorted(tasks, key=lambda each: each.retry_id):
        if task.group == group.name:
            latest[task.name] = task
    pods = [task for task in latest.values() if not left_out(group, task)]
    admitted = any(_was_admitted(task) for task in pods)
    return tuple(
        PodCount(each.name, each.pods, each.least, sum(pod.spec == each.name for pod in pods) if admitted else None)
        for each in spec.tasks
        if each.least < each.pods
    )


def _was_admitted(task: Task) -> bool:
    if task.status in _WAITS:
        return False
    return not task.status.finished or task.node is not None or task.start_time is not None


@dataclass(frozen=True, slots=True)
class GpusAsked:
    """*total*: of all tasks with their full counts. *per_pod*: for each task that accepts fewer pods, (pods, GPUs of
    one pod).

    *groups*: number of task groups. *of_one*: GPUs of one pod, by task. *exec_timeout_s*: of each group; None: no limit.
    """

    total: int
    per_pod: Mapping[str, tuple[int, int]]
    groups: int
    of_one: Mapping[str, int]
    exec_timeout_s: float | None
    array: bool = False

    def held(self, pods: Mapping[str, int]) -> int:
        """Returns the GPUs of *pods*, by task as written."""
        return sum(count * self.of_one.get(task, 0) for task, count in pods.items())

    def of_pods(self, pods: Mapping[str, int]) -> int:
        """Returns the GPUs that *pods* request, by task as written; a missing task counts with all of its pods."""
        return self.total - sum((asked - pods.get(task, asked)) * gpus for task, (asked, gpus) in self.per_pod.items())


def gpus_asked(spec: WorkflowSpec) -> GpusAsked:
    tasks = [task for group in spec.groups for task in group.tasks]
    fewer = {
        task.name: (task.pods, gpus) for task in tasks if task.least < task.pods and (gpus := gpus_in(task.requests))
    }
    of_one = {task.name: gpus_in(task.requests) for task in tasks}
    return GpusAsked(
        sum(task.pods * of_one[task.name] for task in tasks),
        fewer,
        len(spec.groups),
        of_one,
        spec.exec_timeout_s,
        spec.array is not None,
    )
