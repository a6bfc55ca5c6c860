"""Tasks of many workflows as responses."""

from typing import Any

from runrig import wire
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE
from runrig.osmo.shape import Links
from runrig.service.queries.task_queries import Amounts, ListedTask, TaskSum
from runrig.wire import utc

_GI = 2**30


def listed(found: ListedTask, links: Links, now: float) -> wire.TaskEntry:
    task, workflow = found.task, found.workflow
    ran = None if task.start_time is None else round(max(0.0, (task.end_time or now) - task.start_time), 6)
    output = links.output(workflow.id, task.name, task.retry_id)
    return wire.TaskEntry(
        user=workflow.submitted_by,
        workflow_id=workflow.id,
        workflow_uuid=workflow.uuid,
        task_name=task.name,
        retry_id=task.retry_id,
        status=task.status.value,
        pool=workflow.pool,
        priority=workflow.priority.value,
        node=task.node,
        start_time=utc(task.start_time),
        end_time=utc(task.end_time),
        duration=ran,
        overview=links.page(workflow.id),
        logs=output["logs"],
        error_logs=output["error_logs"],
        **_amounts(found.asks),
    )


def summed(found: TaskSum) -> wire.TaskSumEntry:
    return wire.TaskSumEntry(
        user=found.user,
        pool=found.pool,
        priority=found.priority.value,
        workflow_id=found.workflow,
        **_amounts(found.asks),
    )


def _amounts(asks: Amounts) -> dict[str, Any]:
    """Converts to the units of the osmo API: Gi, cores, whole GPUs; integers where possible."""
    return {
        "storage": _in_units(asks.get(STORAGE, 0), _GI),
        "cpu": _in_units(asks.get(CPU, 0), 1000),
        "memory": _in_units(asks.get(MEMORY, 0), _GI),
        "gpu": asks.get(GPU, 0),
    }


def _in_units(amount: int, unit: int) -> float:
    whole, rest = divmod(amount, unit)
    return amount / unit if rest else whole
