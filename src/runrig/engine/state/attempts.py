"""The next attempts of the pods of a group."""

from runrig.domain.gangs import Placement
from runrig.domain.replacing import replace
from runrig.domain.workflows import Group, GroupKey, Status, Task
from runrig.engine.placement.pod_slots import PodSlot, slots_of
from runrig.engine.state.tables import Tables


def new_attempt(state: Tables, group: Group, status: Status) -> None:
    """Creates the next attempt of every pod of the group, including pods that a smaller gang had left out (rule A3)."""
    for spec in state.group_spec((group.workflow, group.name)).tasks:
        for index in range(spec.pods):
            name = spec.pod_name(index)
            # All attempts count: a pod that was left out of the last one may have run before.
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


def unqueue_tasks(state: Tables, key: GroupKey) -> None:
    """The inverse of `queue_tasks`."""
    for task in state.current_tasks(key):
        state.put_task(replace(task, status=Status.WAITING))


def start_tasks(state: Tables, key: GroupKey, placement: Placement) -> None:
    """Assigns node and GPUs to each pod. Pods that were not granted are left out of this attempt."""
    granted = {each.pod_set: (each.count, slots_of(each.shares)) for each in placement}
    for task in state.current_tasks(key):
        count, pods = granted[task.spec]
        if task.index >= count:
            state.drop_task(task)
            continue
        node, gpus = pods[task.index] if pods else (None, ())
        state.put_task(replace(task, status=Status.INITIALIZING, node=node, gpus=gpus))


def began(state: Tables, task: Task) -> float | None:
    """When the attempt *task* began: its gang was admitted, or the attempt before it ended. None: it is not on nodes."""
    entry = state.ledger.entries.get(f"{task.workflow}/{task.group}")
    if entry is None or entry.admitted_at is None:
        return None
    before = state.attempts(task.workflow, task.name)[: task.retry_id]
    return max(entry.admitted_at, (before[-1].end_time if before else None) or 0.0)


def started_again(task: Task, slot: PodSlot | None) -> Task:
    """The next attempt of the pod of *task*, in *slot*; None: where it was."""
    fresh = Task(task.workflow, task.name, task.retry_id + 1, task.group, task.spec, task.index, task.lead)
    node, gpus = slot or (task.node, task.gpus)
    return replace(fresh, status=Status.INITIALIZING, node=node, gpus=gpus)
