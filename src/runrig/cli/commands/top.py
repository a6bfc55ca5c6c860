"""`runrig top`: how busy the GPUs of running tasks are."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.commands.screen import MOST, repeated, watching
from runrig.cli.lazy import command
from runrig.cli.rendering import times
from runrig.cli.rendering.output import say, tell
from runrig.cli.rendering.tables import Column, Table, show
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, Value, path
from runrig.domain.errors import NotFound
from runrig.domain.gpu_use import IDLE_BELOW_PERCENT

Answer = Mapping[str, Any]

_IDLE_S = 600.0
"""A GPU that has been idle for longer is named."""
_GIB = 1024**3
_COLUMNS = (
    Column("Workflow ID"),
    Column("Task"),
    Column("Node", 1),
    Column("GPUs", 2),
    Column("Busy", 5),
    Column("Memory", 4),
    Column("Power", 3),
)


@command("runrig top", "runrig top train-1", "runrig top -w", "runrig top -t json")
@click.argument("id", required=False, shell_complete=completing.workflows)
@watching
@with_session
def top(session: Session, id: str | None, watch: bool) -> None:
    """Show how busy the GPUs of your running tasks are, or of those of workflow ID.

    Busy and Memory are averages over the GPUs of a task, and Power is their sum. GPUs that have been idle for 10 minutes
    are listed below. Only the local backend measures them, with NVML.
    """
    repeated(session, watch, lambda client: _asked(client, id), _tell)


def _asked(client: Transport, id: str | None) -> Answer:
    """Returns the tasks of all workflows, each with its workflow."""
    mine: dict[str, Value] = {"mine": True, "status": "RUNNING"}
    ids = [id] if id is not None else [str(each["id"]) for each in client.items(path("workflows"), mine, most=MOST)]
    answer: dict[str, Any] = {"unknown": None, "tasks": []}
    for each in ids:
        with suppress(*(() if id is not None else (NotFound,))):  # Retention may have deleted one in between.
            found = client.get(path("workflows", each, "gpu-use"))
            answer["unknown"] = found["unknown"]
            answer["tasks"] += [{"workflow": each, **task} for task in found["tasks"]]
    return answer


def _tell(answer: Answer) -> None:
    if not answer["tasks"]:
        say("No tasks are running.")
        return
    show(Table(_COLUMNS, [_row(task) for task in answer["tasks"]]))
    notes = list(_notes(answer))
    if notes:
        tell("\n" + "\n".join(notes))


def _notes(answer: Answer) -> Iterator[str]:
    if answer["unknown"]:
        yield f"GPU usage is not available: {answer['unknown']}."
    for task in answer["tasks"]:
        idle = [gpu for gpu in task["gpus"] if (gpu["idle_s"] or 0.0) >= _IDLE_S]
        if idle:
            names = ", ".join(str(gpu["index"]) for gpu in idle)
            which = f"GPU {names} is" if len(idle) == 1 else f"GPUs {names} are"
            least = times.span(min(gpu["idle_s"] for gpu in idle))
            yield (
                f"{task['workflow']} {task['task']}: {which} idle on {task['node']}: "
                f"less than {IDLE_BELOW_PERCENT}% busy for {least}."
            )


def _row(task: Answer) -> tuple[str, ...]:
    gpus = task["gpus"]
    busy = _mean(_of(gpus, "busy_percent"))
    used, memory, power = _mean(_of(gpus, "memory_used")), _mean(_of(gpus, "memory")), _of(gpus, "power_w")
    return (
        task["workflow"],
        task["task"],
        task["node"],
        str(len(gpus)),
        "-" if busy is None else f"{busy:.0f}%",
        "-" if used is None or memory is None else f"{used / _GIB:.0f} of {memory / _GIB:.0f} GiB",
        _watts(sum(power)) if power else "-",
    )


def _of(gpus: Sequence[Answer], name: str) -> list[float]:
    return [gpu[name] for gpu in gpus if gpu[name] is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _watts(power: float) -> str:
    return f"{power:.0f} W" if power < 1000 else f"{power / 1000:.1f} kW"
