"""Orders, pages and sums of workflows."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, and_, case, false, func, or_, select, union_all
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from runrig.domain.workflow_status import WorkflowStatus
from runrig.ports.places import TIMED, Position, column_of, micros, moment_of
from runrig.ports.store import WorkflowQuery, WorkflowTotals
from runrig.store import schema, sums
from runrig.store.filters import filters
from runrig.store.schema.computed import Duration, Ran, Waited

_WORKFLOW = schema.workflows.c
_SPENT: dict[str, type[Duration]] = {"waited": Waited, "ran": Ran}
FEW = 2_000
"""Workflows with one status that are sorted rather than looked for in an index of all with that status."""

Columns = tuple[tuple[Any, bool], ...]
"""The sort columns of a list, and whether the largest come first. Together they tell all workflows apart."""


def page(connection: Connection, query: WorkflowQuery, at: float, rows: int) -> Select[Any]:
    """The first *rows* rows of the page that *query* asks for, the nearest first if it goes back. *at*: now, for those that
    still run or wait.

    Begins at the place in an index, so that each page costs the same.
    """
    if column_of(query.order) in TIMED:
        return _by_time(connection, query, at, rows)
    return paged(select(schema.workflows).where(*filters(query)), query, rows)


def paged(statement: Select[Any], query: WorkflowQuery, rows: int) -> Select[Any]:
    """The page of *statement* in an order that is not of a time that grows."""
    columns = _columns(query.order, _goes_down(query))
    if query.behind is not None:
        statement = statement.where(_behind(columns, query.behind))
    return statement.order_by(*_sorted(columns)).limit(rows).offset(query.offset)


def _goes_down(query: WorkflowQuery) -> bool:
    return (query.order.startswith("-") or not query.order) != query.back


def _columns(order: str, down: bool) -> Columns:
    if column_of(order) == "workflow":
        return (_WORKFLOW.name, down), (_WORKFLOW.number, down)
    return _newest(_WORKFLOW, down)


def _newest(of: Any, down: bool) -> Columns:
    return (of.submit_time, down), (of.number, down), (of.id, not down)


def _sorted(columns: Columns) -> list[Any]:
    return [column.desc() if down else column for column, down in columns]


def _behind(columns: Columns, place: Position) -> Any:
    (column, down), *more = columns
    beyond = column < place[0] if down else column > place[0]
    if not more:
        return beyond
    reached = column <= place[0] if down else column >= place[0]
    return and_(reached, or_(beyond, _behind(tuple(more), place[1:])))


# ---------------------------------------------------------------- by a time that grows


class _Any(FunctionElement[Any]):
    """A column for which SQLite looks into no index: it has no statistics, and would sort everything that matches."""

    inherit_cache = True

    def __init__(self, column: Any) -> None:
        super().__init__(column)
        self.type = column.type


@compiles(_Any)
def _as_it_is(element: _Any, compiler: Any, **more: Any) -> str:
    sign = "+" if compiler.dialect.name == "sqlite" else ""
    return f"{sign}{compiler.process(next(iter(element.clauses)), **more)}"


class _Walked:
    """The columns of `filters` for a walk along an index."""

    id, pool, submitted_by, status, priority, submit_time = (
        _Any(_WORKFLOW[name]) for name in ("id", "pool", "submitted_by", "status", "priority", "submit_time")
    )


def _by_time(connection: Connection, query: WorkflowQuery, at: float, rows: int) -> Select[Any]:
    """Merges the first rows of each status. Workflows that wait or run now have an order of their own."""
    found = [
        _first(query, status, growing, count, micros(moment_of(query.behind, query.order, at)), rows + query.offset)
        for status, count, _, _ in sums.by_status(connection, query, at)
        for growing in ((None,) if WorkflowStatus(status).finished else (False, True))
    ]
    if not found:
        return select(schema.workflows).where(false())
    each = union_all(*(select(part.subquery()) for part in found)).subquery().c
    down = _goes_down(query)
    columns = ((each.spent, down), *_newest(each, down))
    nearest = (
        select(each.id).order_by(*_sorted(columns)).limit(rows).offset(query.offset).add_columns(each.spent).subquery()
    )
    whole = select(schema.workflows).join(nearest, nearest.c.id == _WORKFLOW.id)
    return whole.order_by(*_sorted(((nearest.c.spent, down), *_newest(_WORKFLOW, down))))


def _first(query: WorkflowQuery, status: str, growing: bool | None, count: int, at: int, rows: int) -> Select[Any]:
    """*count*: of workflows with *status*. *growing* None: none with it can be, so that a damaged row is not left out. *at*: in
    microseconds, like *spent* of the rows.
    """
    since = at + 1 if growing else 0
    key, down = _SPENT[column_of(query.order)](), _goes_down(query)
    columns = ((key, down), *_newest(_WORKFLOW, down))
    apart = () if growing is None else (key < 0 if growing else key >= 0,)
    those = filters(replace(query, statuses=()), _Walked if count > FEW else _WORKFLOW)
    part = (
        select(_WORKFLOW.id, _WORKFLOW.submit_time, _WORKFLOW.number, (key + since).label("spent"))
        .where(_WORKFLOW.status == status, *apart, *those)
        .order_by(*_sorted(columns))
        .limit(rows)
    )
    if query.behind is None:
        return part
    _, spent, *place = query.behind
    return part.where(_behind(columns, (int(spent) - since, *place)))


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
    newest = (
        select(_WORKFLOW.status, Waited().label("waited"), Ran().label("ran"))
        .where(*filters(query))
        .order_by(_WORKFLOW.submit_time.desc())
        .limit(most)
        .subquery()
    )
    each = newest.c
    # Out here, so that each row is parsed once.
    waited, ran = (func.sum(case((key < 0, key + (micros(at) + 1)), else_=key)) for key in (each.waited, each.ran))
    grouped = select(each.status, func.count(), waited, ran).group_by(each.status)
    return [(row[0].value, int(row[1]), int(row[2]) / 1e6, int(row[3]) / 1e6) for row in connection.execute(grouped)]
