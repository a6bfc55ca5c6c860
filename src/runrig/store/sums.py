"""Kept sums of workflows by pool, user, status and priority: totals of these read no workflows, however many there are.

A transaction that changes or deletes workflows takes their old rows out of the sums and adds the new ones; on PostgreSQL the
statement that writes them does so. Milliseconds, because whole numbers add up to the same in any order.
"""

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Connection, func, select

from runrig.ports.store import WorkflowQuery
from runrig.store import schema
from runrig.store.dialect import put_rows, statements
from runrig.store.filters import key_filters
from runrig.store.rows import Row
from runrig.store.text import checked_dumps

_SUM = schema.workflow_sums.c
_KEY = ("pool", "submitted_by", "status", "priority")
_AMOUNTS = ("workflows", "waited", "ran", "waiting", "waiting_since", "running", "running_since")
_NOW = {
    "sqlite": "CASE WHEN json_valid(times) THEN json_extract(times, '$.now') END",
    "postgresql": "(times->>'now')",
}
_SECONDS = {
    "sqlite": "max(0, min(cast(coalesce(CASE WHEN json_valid(times) THEN json_extract(times, '$.{}') END, 0) AS double precision), 1e12))",
    "postgresql": "cast(CASE WHEN json_typeof(times->'{}') = 'number' THEN greatest(least(cast(times->>'{}' AS numeric), 1e12), 0)"
    " ELSE 0 END AS double precision)",
}
"""A field of a JSON column. A damaged row counts no time, or too much, rather than stop the commits that it is in."""
_IDS = {
    "sqlite": "SELECT value FROM json_each(:ids)",
    "postgresql": "SELECT json_array_elements_text(cast(%(ids)s AS json))",
}


def answers(query: WorkflowQuery) -> bool:
    """Returns True if *query* filters by nothing but what the sums are kept by."""
    by_time = query.submitted_after, query.submitted_before
    by_more = query.labels, query.no_labels, query.tags, query.arrays
    return query.name is None and by_time == (None, None) and not any(by_more)


def by_status(connection: Connection, query: WorkflowQuery, at: float) -> list[tuple[str, int, float, float]]:
    """Returns for each status how many workflows, and the seconds that they have waited and run together at *at*."""
    amounts = (func.sum(_SUM[name]) for name in _AMOUNTS)
    grouped = select(_SUM.status, *amounts).where(*key_filters(query, _SUM), _SUM.workflows > 0).group_by(_SUM.status)
    return [
        (row[0].value, int(row[1]), _seconds(at, row[2], row[4], row[5]), _seconds(at, row[3], row[6], row[7]))
        for row in connection.execute(grouped)
    ]


def _seconds(at: float, kept: int, live: int, since: int) -> float:
    return int(kept + live * round(at * 1000) - since) / 1000


def put(connection: Connection, rows: Sequence[Row]) -> None:
    """Inserts or overwrites *rows* of workflows, whose first column is the id, and counts them in place of the old rows."""
    if connection.dialect.name == "postgresql":
        for statement, values in statements(schema.workflows, rows):
            connection.exec_driver_sql(_put_and_counted(statement), values)
        return
    ids = [row[0] for row in rows]
    take(connection, ids)
    put_rows(connection, schema.workflows, rows)
    _count(connection, ids, 1)


def take(connection: Connection, ids: Sequence[str]) -> None:
    """Takes the workflows *ids*, as they are stored, out of the sums."""
    _count(connection, ids, -1)


def recount(connection: Connection) -> None:
    """Fills the empty table of sums."""
    connection.exec_driver_sql(_counting(connection.dialect.name, _those(1, "workflows")))


def _count(connection: Connection, ids: Sequence[str], sign: int) -> None:
    if ids:
        name = connection.dialect.name
        those = _those(sign, f"workflows WHERE id IN ({_IDS[name]})")
        connection.exec_driver_sql(_counting(name, those), {"ids": checked_dumps(list(ids))})


def _those(sign: int, which: str) -> str:
    return f"SELECT {', '.join(_KEY)}, times, {sign} AS sign FROM {which}"  # noqa: S608  No values of users.


@cache
def _put_and_counted(statement: str) -> str:
    """*statement*: puts workflows. All of the whole sees the rows as they were before, except for what `put` returns."""
    before = _those(-1, "workflows WHERE id IN (SELECT id FROM put)")
    changed = _counting("postgresql", f"{_those(1, 'put')} UNION ALL {before}")
    return f"WITH put AS ({statement} RETURNING id, {', '.join(_KEY)}, times) {changed}"


@cache
def _counting(dialect: str, those: str) -> str:
    """*those*: selects the key and times of workflows, and the sign with which they count."""

    def ms(name: str) -> str:
        return f"cast(round({_SECONDS[dialect].replace('{}', name)} * 1000) AS bigint)"

    def now(name: str) -> str:
        return f"CASE {_NOW[dialect]} WHEN '{name}' THEN 1 ELSE 0 END"

    times = f"{ms('waited')} AS waited, {ms('running')} AS ran, {ms('since')} AS since"
    live = f"{now('waited')} AS waiting, {now('running')} AS running"
    key = ", ".join(_KEY)
    each = "1", "waited", "ran", "waiting", "waiting * since", "running", "running * since"
    sums = ", ".join(f"sum(sign * {amount})" for amount in each)
    added = ", ".join(f"{name} = workflow_sums.{name} + excluded.{name}" for name in _AMOUNTS)
    counted = f"SELECT {key}, {sums} FROM (SELECT {key}, sign, {times}, {live} FROM ({those}) AS those) AS each GROUP BY {key}"  # noqa: S608  No values of users.
    return (
        f"INSERT INTO workflow_sums ({key}, {', '.join(_AMOUNTS)}) {counted} ON CONFLICT ({key}) DO UPDATE SET {added}"
    )
