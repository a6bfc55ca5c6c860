"""The GPU use of a workflow, as its page shows it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup

from runrig.domain.shown.gpu_use import WorkflowGpuHistory, WorkflowGpuUse
from runrig.web import drawings

MINUTE_S = 60
MOST = 20
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Use:
    """An attempt of a task.  *now*, *before*: its GPUs now, and on average before, in words; None: unknown.

    *picture*: how busy they were.
    """

    task: str
    attempt: int
    now: str | None
    before: str | None
    picture: Markup | None


def uses(now: WorkflowGpuUse, history: WorkflowGpuHistory) -> list[Use]:
    """Returns the first attempts that run on GPUs, or whose GPUs were measured; empty if nothing is."""
    current = {} if now.unknown else {(each.task, each.attempt): each.gpus for each in now.tasks if each.gpus}
    before = {(each.task, each.attempt): each.minutes for each in history.tasks}
    moments = [each.at.timestamp() for minutes in before.values() for each in minutes]
    begin, end = min(moments, default=0.0), max(moments, default=0.0) + MINUTE_S
    found = []
    for name, attempt in [*before, *(key for key in current if key not in before)][:MOST]:
        gpus, minutes = current.get((name, attempt), ()), before.get((name, attempt), ())
        points = [(each.at.timestamp(), each.busy_percent) for each in minutes if each.busy_percent is not None]
        found.append(
            Use(
                name,
                attempt,
                _words([each.busy_percent for each in gpus], [each.memory_used for each in gpus]),
                _words([each.busy_percent for each in minutes], [each.memory_used for each in minutes]),
                drawings.use(points, begin, end, MINUTE_S) if points else None,
            )
        )
    return found


def _words(busy: Sequence[int | None], memory: Sequence[int | None]) -> str | None:
    percents, sizes = ([each for each in values if each is not None] for values in (busy, memory))
    said = [f"{fmean(percents):.0f}% busy"] if percents else []
    said += [f"{fmean(sizes) / _GIB:.0f} GiB of memory"] if sizes else []
    return ", ".join(said) or None
