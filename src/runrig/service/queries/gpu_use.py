"""The GPU use of a workflow: its tasks, with what the backend measures of their GPUs. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from runrig.domain.gpu_use import GpuMinute, GpuUse
from runrig.domain.shown.gpu_use import TaskGpuMinutes, TaskGpuUse, WorkflowGpuHistory, WorkflowGpuUse
from runrig.domain.shown.workflows import TaskAttempt, Workflow
from runrig.domain.value import at
from runrig.domain.workflows import Status


def gpu_use(workflow: Workflow, measured: Mapping[str, Sequence[GpuUse]] | str, now: float) -> WorkflowGpuUse:
    """*measured*: as `Backend.gpu_use` returns it."""
    running = [task for group in workflow.groups for task in group.tasks if task.status is Status.RUNNING]
    by_node = {} if isinstance(measured, str) else measured
    tasks = tuple([_task(task, by_node.get(task.node or "", ()), at(now)) for task in running])
    return WorkflowGpuUse(measured if isinstance(measured, str) else None, tasks)


def _task(task: TaskAttempt, measured: Sequence[GpuUse], now: datetime) -> TaskGpuUse:
    ran_s = 0.0 if task.start_time is None else max(0.0, (now - task.start_time).total_seconds())
    by_index = {use.index: use for use in measured}
    gpus = [by_index.get(index, GpuUse(index)) for index in task.gpus]
    return TaskGpuUse(task.name, task.attempt, task.node or "", tuple([_since(use, ran_s) for use in gpus]))


def _since(use: GpuUse, ran_s: float) -> GpuUse:
    """The GPU may have been idle before the task got it."""
    return use if use.idle_s is None else replace(use, idle_s=min(use.idle_s, ran_s))


def gpu_history(
    workflow: Workflow, minutes: Callable[[str, Sequence[int], float, float], tuple[GpuMinute, ...]], now: float
) -> WorkflowGpuHistory:
    """*minutes*: as `Backend.gpu_minutes` returns them."""
    tasks = [
        TaskGpuMinutes(task.name, task.attempt, task.node, found)
        for group in workflow.groups
        for task in group.tasks
        if task.node and task.gpus and task.start_time
        if (found := minutes(task.node, task.gpus, task.start_time.timestamp(), _end(task, now)))
    ]
    return WorkflowGpuHistory(tuple(tasks))


def _end(task: TaskAttempt, now: float) -> float:
    return now if task.end_time is None else task.end_time.timestamp()
