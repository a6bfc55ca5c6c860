"""Places of workflows in the orders of a list: the values that it is sorted by, as a cursor carries them."""

from collections.abc import Mapping

from runrig.domain.times import Moment
from runrig.domain.workflows import Workflow

Position = tuple[float | int | str, ...]

TIMED: Mapping[str, Moment] = {"waited": Moment.WAITED, "ran": Moment.RUNNING}
"""Orders by a time that grows: their places begin with the moment for which the first page was sorted, so that the next ones agree."""


def column_of(order: str) -> str:
    return order.removeprefix("-") or "submitted"


def kinds_of(order: str) -> tuple[type, ...]:
    """The types of the parts of a place in *order*."""
    return {"submitted": (float, int, str), "workflow": (str, int)}.get(column_of(order), (float, int, float, int, str))


def moment_of(place: Position | None, order: str, now: float) -> float:
    """The moment for which the page behind *place* is sorted."""
    return float(place[0]) if place and column_of(order) in TIMED else now


def place_of(workflow: Workflow, order: str, at: float) -> Position:
    if column_of(order) == "workflow":
        return workflow.name, workflow.number
    submitted = workflow.submit_time, workflow.number, workflow.id
    spent = TIMED.get(column_of(order))
    return submitted if spent is None else (at, spent_on(workflow, spent, at), *submitted)


def spent_on(workflow: Workflow, what: Moment, at: float) -> int:
    """Microseconds up to *at*; below 0 for what began long after it."""
    times = workflow.times
    if times is None:
        return 0
    kept = micros(getattr(times, what.value))
    return kept + micros(at) - micros(times.since) if times.now is what else kept


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
