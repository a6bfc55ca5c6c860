"""How busy the GPUs of tasks are and were."""

from dataclasses import dataclass

from runrig.domain.gpu_use import GpuMinute, GpuUse
from runrig.domain.value import Shown, example, shown_as


@dataclass(frozen=True, slots=True)
class TaskGpuUse(Shown):
    """A running task and its GPUs.  *attempt*: counts from 0."""

    task: str
    attempt: int
    node: str
    gpus: tuple[GpuUse, ...]


shown_as(TaskGpuUse("main", 0, "n00", (example(GpuUse),)))


@dataclass(frozen=True, slots=True)
class WorkflowGpuUse(Shown):
    """The running tasks of a workflow, in its order.  *unknown*: why the use of their GPUs is unknown; null if it is known."""

    unknown: str | None
    tasks: tuple[TaskGpuUse, ...]


shown_as(WorkflowGpuUse(None, (example(TaskGpuUse),)))


@dataclass(frozen=True, slots=True)
class TaskGpuMinutes(Shown):
    """An attempt of a task, with the minutes of its GPUs that were measured, oldest first.  *attempt*: counts from 0."""

    task: str
    attempt: int
    node: str
    minutes: tuple[GpuMinute, ...]


shown_as(TaskGpuMinutes("main", 0, "n00", (example(GpuMinute),)))


@dataclass(frozen=True, slots=True)
class WorkflowGpuHistory(Shown):
    """The attempts of a workflow whose GPUs were measured in the last 24 hours, in its order."""

    tasks: tuple[TaskGpuMinutes, ...]


shown_as(WorkflowGpuHistory((example(TaskGpuMinutes),)))
