"""Values and references in the rows of SQLite, which stores anything: finds damage in well-formed pages.

A row with an unknown state would not be loaded, and its absence would go unnoticed.
"""

from sqlalchemy import JSON, Boolean, Column, Connection, Double, LargeBinary, Table
from sqlalchemy.types import TypeEngine

from runrig.domain.limits import SETTING
from runrig.ports.store import ALIVE
from runrig.store import schema
from runrig.store.columns import Encoded, OneOf, UtcDateTime, Words

_TABLES = tuple(table for table in schema.metadata.sorted_tables if table not in (schema.events, schema.leader))
"""The log is checked on reading, because it can be long. Servers do not take turns on SQLite."""

_TIME = "DDDD-DD-DD DD:DD:DD.DDDDDD".replace("D", "[0-9]")
_LIVE = ", ".join(f"'{status}'" for status in ALIVE)
_TOGETHER = {
    schema.workflows: {
        "id": "id = name || '-' || number",
        "end_time": f"(end_time IS NULL) = (status IN ({_LIVE}))",
    },
    schema.meta: {"revision": "revision >= (SELECT coalesce(max(revision), 0) FROM events)"},
    schema.gangs: {"id": "substr(id, 1, length(workflow) + 1) = workflow || '/'"},
    schema.limits: {
        "user": """"user" <> ''""",
        **{name: f"coalesce({name}, 1) > 0" for name in SETTING},
    },
    schema.pools: {name: f"coalesce({name}, 1) > 0" for name in SETTING.values()},
}
"""Columns determined by others of their row, and limits, which begin at 1. For unfinished workflows, `engine.lifecycle.contradictions`
finds more.
"""


def problem(connection: Connection) -> str | None:
    """Describes the first row with an invalid value or a dangling reference, or None. O(rows), in SQLite itself."""
    for table in _TABLES:
        there = {row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({_quoted(table.name)})")}
        columns = [column for column in table.columns if column.name in there]
        if columns and (found := _wrong(connection, table, columns)) is not None:
            return found
    missing = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    return (
        None if missing is None else f"table {missing[0]}, row {missing[1]}: it refers to a missing row of {missing[2]}"
    )


def _wrong(connection: Connection, table: Table, columns: list[Column[object]]) -> str | None:
    there = {column.name for column in columns}
    together = [each for each in _TOGETHER.get(table, {}).items() if each[0] in there]
    sound = [(column.name, _sound(column)) for column in columns] + together
    wrong = [(name, f"NOT coalesce({condition}, 0)") for name, condition in sound]
    cases = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in wrong)
    key = ", ".join(_quoted(column.name) for column in columns if column.primary_key)
    where = " OR ".join(condition for _, condition in wrong)
    statement = f"SELECT CASE {cases} END, {key} FROM {_quoted(table.name)} WHERE {where} LIMIT 1"  # noqa: S608 - names from the schema
    row = connection.exec_driver_sql(statement).first()
    if row is None:
        return None
    return f"table {table.name}, row {', '.join(str(value) for value in row[1:])}: invalid {row[0]}"


def _sound(column: Column[object]) -> str:
    name = _quoted(column.name)
    condition = _of_type(column.type, name)
    return f"({name} IS NULL OR {condition})" if column.nullable else f"({condition})"


def _of_type(type_: TypeEngine[object], name: str) -> str:
    match type_:
        case OneOf():
            members = ", ".join(f"'{member.value}'" for member in type_.members)
            return f"{name} IN ({members})"
        case UtcDateTime():
            return f"typeof({name}) = 'text' AND {name} GLOB '{_TIME}' AND julianday({name}) IS NOT NULL"
        case Encoded() | JSON():
            return f"typeof({name}) = 'text' AND json_valid({name})"
        case Words():
            return f"typeof({name}) = 'text'"
        case Boolean():
            return f"{name} IN (0, 1)"
        case LargeBinary():
            return f"typeof({name}) = 'blob'"
        case Double():
            return f"typeof({name}) IN ('real', 'integer')"
    return f"typeof({name}) = 'integer'"


def _quoted(name: str) -> str:
    return f'"{name}"'
