"""Orders, pages and sums of workflows."""

from typing import Any

from sqlalchemy import JSON, Connection, Float, Select, and_, case, func, literal, or_, select, type_coerce

from runrig.domain.times import Moment
from runrig.domain.workflow_status import WorkflowStatus
from runrig.ports.places import TIMED, Position, column_of, moment_of
from runrig.ports.store import WorkflowQuery, WorkflowTotals
from runrig.store import schema, sums
from runrig.store.filters import filters

_WORKFLOW = schema.workflows.c
_NEWEST = ((_WORKFLOW.submit_time, True), (_WORKFLOW.number, True), (_WORKFLOW.id, False))

Columns = tuple[tuple[Any, bool], ...]
"""The sort columns of a list, and whether the largest come first. Together they tell all workflows apart."""


def paged(statement: Select[Any], query: WorkflowQuery, at: float, rows: int) -> Select[Any]:
    """The first *rows* rows of the page that *query* asks for, the nearest first if it goes back. *at*: now, for those that
    still run or wait.

    Begins at the place in an index, so that each page costs the same.
    """
    columns = _columns(query.order, moment_of(query.behind, query.order, at))
    if query.back:
        columns = tuple((column, not down) for column, down in columns)
    if query.behind is not None:
        statement = statement.where(_behind(columns, query.behind[-len(columns) :]))
    ordered = statement.order_by(*(column.desc() if down else column for column, down in columns))
    return ordered.limit(rows).offset(query.offset)


def _columns(order: str, at: float) -> Columns:
    name, down = column_of(order), order.startswith("-") or not order
    if name in TIMED:
        return ((_spent(TIMED[name], at), down), *_NEWEST)
    if name == "workflow":
        return (_WORKFLOW.name, down), (_WORKFLOW.number, down)
    return (_WORKFLOW.submit_time, down), (_WORKFLOW.number, down), (_WORKFLOW.id, not down)


def _behind(columns: Columns, place: Position) -> Any:
    (column, down), *more = columns
    value = literal(place[0], Float) if isinstance(column.type, Float) else place[0]
    beyond = column < value if down else column > value
    if not more:
        return beyond
    reached = column <= value if down else column >= value
    return and_(reached, or_(beyond, _behind(tuple(more), place[1:])))


def _spent(what: Moment, at: float) -> Any:
    """As `ports.places.spent_on`."""
    times, name = type_coerce(_WORKFLOW.times, JSON), what.value
    since, now = times["since"].as_float(), literal(at, Float)
    live = case((and_(times["now"].as_string() == name, since < now), now - since), else_=0.0)
    return type_coerce(func.coalesce(times[name].as_float(), 0.0) + live, Float)


def totals(connection: Connection, query: WorkflowQuery, at: float, most: int) -> WorkflowTotals:
    rows = sums.by_status(connection, query, at) if sums.answers(query) else _summed(connection, query, at, most)
    statuses = {status: count for status, count, _, _ in rows}
    whole = sums.answers(query) or sum(statuses.values()) < most
    waited, ran = sum(row[2] for row in rows), sum(row[3] for row in rows)
    oldest = None
    if WorkflowStatus.PENDING.value in statuses:
        pending = _WORKFLOW.status == WorkflowStatus.PENDING
        first = select(_WORKFLOW.submit_time).where(pending, *filters(query)).order_by(_WORKFLOW.submit_time).limit(1)
        oldest = connection.execute(first).scalar()
    return WorkflowTotals(statuses, waited, ran, whole, oldest)


def _summed(connection: Connection, query: WorkflowQuery, at: float, most: int) -> list[tuple[str, int, float, float]]:
    """Reads the newest *most* matches, in the order of an index."""
    waited, ran = (_spent(each, at) for each in (Moment.WAITED, Moment.RUNNING))
    newest = (
        select(_WORKFLOW.status, waited.label("waited"), ran.label("ran"))
        .where(*filters(query))
        .order_by(_WORKFLOW.submit_time.desc())
        .limit(most)
        .subquery()
    )
    each = newest.c
    grouped = select(each.status, func.count(), func.sum(each.waited), func.sum(each.ran)).group_by(each.status)
    return [(row[0].value, int(row[1]), float(row[2]), float(row[3])) for row in connection.execute(grouped)]
