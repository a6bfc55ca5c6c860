"""Kept sums of workflows by pool, user, status and priority: totals of these read no workflows, however many there are.

A transaction that changes or deletes workflows takes their old rows out of the sums and adds the new ones. Milliseconds,
because whole numbers add up to the same in any order.
"""

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Connection, func, select

from runrig.ports.store import WorkflowQuery
from runrig.store import schema
from runrig.store.filters import key_filters
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


def take(connection: Connection, ids: Sequence[str]) -> None:
    """Takes the workflows *ids*, as they are stored, out of the sums."""
    _count(connection, ids, -1)


def add(connection: Connection, ids: Sequence[str]) -> None:
    _count(connection, ids, 1)


def recount(connection: Connection) -> None:
    """Fills the empty table of sums."""
    connection.exec_driver_sql(_counting(connection.dialect.name, 1, "1 = 1"))


def _count(connection: Connection, ids: Sequence[str], sign: int) -> None:
    if ids:
        name = connection.dialect.name
        connection.exec_driver_sql(_counting(name, sign, f"id IN ({_IDS[name]})"), {"ids": checked_dumps(list(ids))})


@cache
def _counting(dialect: str, sign: int, which: str) -> str:

    def ms(name: str) -> str:
        return f"cast(round({_SECONDS[dialect].replace('{}', name)} * 1000) AS bigint)"

    def live(name: str, amount: str) -> str:
        return f"CASE WHEN {_NOW[dialect]} = '{name}' THEN {amount} ELSE 0 END"

    since, key = ms("since"), ", ".join(_KEY)
    each = (
        *("1", ms("waited"), ms("running"), live("waited", "1"), live("waited", since)),
        *(live("running", "1"), live("running", since)),
    )
    sums = ", ".join(f"{sign} * sum({amount})" for amount in each)
    added = ", ".join(f"{name} = workflow_sums.{name} + excluded.{name}" for name in _AMOUNTS)
    counted = f"SELECT {key}, {sums} FROM workflows WHERE {which} GROUP BY {key}"  # noqa: S608  No values of users.
    return (
        f"INSERT INTO workflow_sums ({key}, {', '.join(_AMOUNTS)}) {counted} ON CONFLICT ({key}) DO UPDATE SET {added}"
    )
