"""Orders and sums of workflows: by how they spent their time, which is stored as JSON."""

from typing import Any

from sqlalchemy import JSON, Connection, Float, case, func, literal, select, type_coerce

from runrig.ports.store import WorkflowQuery, WorkflowTotals
from runrig.store import schema
from runrig.store.filters import filters

_WORKFLOW = schema.workflows.c
_NEWEST = (_WORKFLOW.submit_time.desc(), _WORKFLOW.number.desc(), _WORKFLOW.id)


def order_of(query: WorkflowQuery, at: float) -> tuple[Any, ...]:
    """*at*: now, for those that still run or wait."""
    name = query.order.removeprefix("-")
    if not name or query.order == "-submitted":
        return _NEWEST
    columns = {
        "submitted": (_WORKFLOW.submit_time, _WORKFLOW.number),
        "workflow": (_WORKFLOW.name, _WORKFLOW.number),
        "waited": (_spent("waited", at),),
        "ran": (_spent("running", at),),
    }
    found = columns[name]
    return (*(each.desc() if query.order.startswith("-") else each for each in found), *_NEWEST)


def _spent(name: str, at: float) -> Any:
    times = type_coerce(_WORKFLOW.times, JSON)
    kept = func.coalesce(times[name].as_float(), 0.0)
    live = case((times["now"].as_string() == name, literal(at, Float) - times["since"].as_float()), else_=0.0)
    return kept + live


def totals(connection: Connection, query: WorkflowQuery, at: float, most: int) -> WorkflowTotals:
    """Reads at most *most* rows and one, in the order of an index."""
    newest = (
        select(_WORKFLOW.status, _spent("waited", at).label("waited"), _spent("running", at).label("ran"))
        .where(*filters(query))
        .order_by(_WORKFLOW.submit_time.desc())
        .limit(most)
        .subquery()
    )
    each = newest.c
    grouped = select(
        each.status, func.count(), func.sum(each.waited), func.max(each.waited), func.sum(each.ran)
    ).group_by(each.status)
    rows = connection.execute(grouped).all()
    statuses = {str(row[0].value): int(row[1]) for row in rows}
    waited, ran = (sum(float(row[at]) for row in rows) for at in (2, 4))
    longest = max((float(row[3]) for row in rows), default=0.0)
    return WorkflowTotals(statuses, waited, longest, ran, sum(statuses.values()) < most)
