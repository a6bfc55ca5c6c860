"""How busy the GPUs of running tasks are."""

from dataclasses import dataclass

from runrig.domain.gpu_use import GpuUse
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
