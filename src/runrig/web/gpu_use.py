"""The GPU use of a workflow, as its page shows it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from markupsafe import Markup

from runrig.domain.gpu_use import GpuMinute
from runrig.domain.shown.gpu_use import WorkflowGpuHistory, WorkflowGpuUse
from runrig.domain.shown.workflows import Workflow
from runrig.web import drawings
from runrig.web.drawings import UsePoint

MINUTE_S = 60
MOST = 20
MOST_POINTS = 120
"""Points of a picture at most; a point of a longer time is the average of several minutes."""
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Uses:
    """*tasks*: attempts of tasks, the first ones; *now*, *before*: their GPUs now, and on average before, in words; None: unknown.
    *picture*: the average of *gpus* GPUs from *begin* to *end*; None: nothing was measured.  *memory*: GiB at the top of the picture;
    None: not measured.
    """

    tasks: Sequence[Mapping[str, Any]]
    picture: Markup | None = None
    gpus: int = 0
    begin: float = 0.0
    end: float = 0.0
    memory: int | None = None


def uses(shown: Workflow, now: WorkflowGpuUse, history: WorkflowGpuHistory) -> Uses | None:
    """Returns what is known about attempts that run on GPUs, or whose GPUs were measured; None if nothing is."""
    current = {} if now.unknown else {(each.task, each.attempt): each.gpus for each in now.tasks if each.gpus}
    before = {(each.task, each.attempt): each.minutes for each in history.tasks}
    tasks = []
    for name, attempt in [*before, *(key for key in current if key not in before)][:MOST]:
        gpus, minutes = current.get((name, attempt), ()), before.get((name, attempt), ())
        tasks.append(
            {
                "task": name,
                "attempt": attempt,
                "now": _words([each.busy_percent for each in gpus], [each.memory_used for each in gpus]),
                "before": _words([each.busy_percent for each in minutes], [each.memory_used for each in minutes]),
            }
        )
    if not any(before.values()):
        return Uses(tasks) if tasks else None
    count = {(each.name, each.attempt): len(each.gpus) for group in shown.groups for each in group.tasks}
    sizes = [gpu.memory for gpus in current.values() for gpu in gpus if gpu.memory]
    return _pictured(tasks, before, count, max(sizes, default=0) / _GIB)


def _pictured(
    tasks: Sequence[Mapping[str, Any]],
    before: Mapping[tuple[str, int], Sequence[GpuMinute]],
    count: Mapping[tuple[str, int], int],
    size: float,
) -> Uses:
    """*count*: GPUs of each attempt.  *size*: of a GPU's memory in GiB; 0: unknown."""
    moments = [each.at.timestamp() for minutes in before.values() for each in minutes]
    begin, end = min(moments), max(moments) + MINUTE_S
    step = MINUTE_S * -(-round(end - begin) // (MINUTE_S * MOST_POINTS))
    steps: dict[int, list[tuple[int, GpuMinute]]] = {}
    for key, minutes in before.items():
        for each in minutes:
            steps.setdefault(int((each.at.timestamp() - begin) // step), []).append((count.get(key, 1), each))
    points = []
    for at, found in sorted(steps.items()):
        busy = _mean((gpus, each.busy_percent) for gpus, each in found)
        memory = _mean((gpus, each.memory_used) for gpus, each in found)
        points.append(UsePoint(begin + at * step, busy, None if memory is None else memory / _GIB))
    most = max((each.memory for each in points if each.memory is not None), default=None)
    top = None if most is None else round(size) or 8 * (int(most / 8) + 1)
    latest = {task: count.get((task, attempt), 1) for task, attempt in before}
    return Uses(tasks, drawings.use(points, begin, end, step, top or 1, _said), sum(latest.values()), begin, end, top)


def _mean(found: Iterable[tuple[int, int | None]]) -> float | None:
    """*found*: (weight, value)."""
    known = [(weight, value) for weight, value in found if value is not None]
    return fmean([value for _, value in known], [max(1, weight) for weight, _ in known]) if known else None


def _said(point: UsePoint) -> str:
    at = datetime.fromtimestamp(point.at, UTC)
    memory = None if point.memory is None else point.memory * _GIB
    return f"{at:%m-%d %H:%M} UTC: {_words([point.busy], [memory]) or 'not measured'}"


def _words(busy: Sequence[float | None], memory: Sequence[float | None]) -> str | None:
    percents, sizes = ([each for each in values if each is not None] for values in (busy, memory))
    said = [f"{fmean(percents):.0f}% busy"] if percents else []
    said += [f"{fmean(sizes) / _GIB:.0f} GiB"] if sizes else []
    return ", ".join(said) or None
