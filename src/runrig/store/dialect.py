"""Writing: insert or update, many rows at once, one migration at a time, where the databases differ.

A cycle writes tens of thousands of rows in one transaction, and a submission a row in each of many tables, so what a commit writes
bypasses SQLAlchemy, which compiles a statement each time and binds values one by one.  Statements are text, made once.  SQLite
gets tuples, and PostgreSQL, where each round trip is long, gets all rows of a table at once, as
JSON that it takes apart itself.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, Text, UpdateBase, bindparam, cast, column, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.types import JSON, TypeEngine

from runrig.domain.errors import ServerFault
from runrig.store.columns import Encoded, OneOf, UtcDateTime, Words
from runrig.store.postgresql import MIGRATION_KEY
from runrig.store.rows import Row
from runrig.store.text import checked, checked_dumps

ROWS_AT_ONCE = 5_000
"""So that no parameter grows beyond a few megabytes."""

Encoder = Callable[[Any], Any]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Inserts *rows*, none of which exists yet."""
    _execute(connection, table, rows, None)


def put_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Inserts *rows*; where the key exists, all columns are overwritten."""
    _execute(connection, table, rows, "update")


def insert_new(connection: Connection, table: Table, row: Row) -> None:
    """Inserts *row* unless its key exists."""
    _execute(connection, table, [row], "nothing")


def insert_plain(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Inserts rows of plain values, as a backup has them: times and enums as text, nested values as JSON."""
    _execute(connection, table, rows, None, plain=True)


def run(connection: Connection, statement: UpdateBase, values: Mapping[str, object]) -> int:
    """Executes *statement*, which is kept for ever; returns how many rows it changed."""
    if connection.dialect.name == "sqlite":
        changed: int = _driver(connection).execute(_text(statement, "sqlite"), values).rowcount
        return changed
    return connection.exec_driver_sql(_text(statement, "postgresql"), dict(values)).rowcount


def before_migration(connection: Connection, place: str) -> None:
    """Keeps others from migrating this database until the transaction ends.  Raises ServerFault if it cannot keep all text."""
    if connection.dialect.name == "postgresql":  # on SQLite a writer is alone anyway
        connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_KEY)))
        encoding = connection.execute(select(func.current_setting("server_encoding"))).scalar_one()
        if encoding != "UTF8":
            raise ServerFault(
                f"{place} uses encoding {encoding}. Create one with `createdb --encoding UTF8 --template template0`, "
                "and use it in the URL"
            )


# ---------------------------------------------------------------- statements


def _execute(
    connection: Connection, table: Table, rows: Sequence[Row], conflict: str | None, *, plain: bool = False
) -> None:
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        encoders = _nested(table) if plain else _for_sqlite(table)
        _driver(connection).executemany(_sqlite(table, conflict), [_encoded(row, encoders) for row in rows])
        return
    names, json_encoders = table.columns.keys(), () if plain else _for_json(table)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        sent = [
            dict(zip(names, _encoded(row, json_encoders), strict=True)) for row in rows[start : start + ROWS_AT_ONCE]
        ]
        connection.exec_driver_sql(_postgresql(table, conflict), {"rows": checked_dumps(sent)})


def _driver(connection: Connection) -> Any:
    """SQLite's own connection, whose transaction is that of *connection*.  Not that of PostgreSQL: SQLAlchemy has to see it break."""
    return connection.connection.driver_connection


@cache
def _sqlite(table: Table, conflict: str | None) -> str:
    """An insert with a placeholder for each column."""
    return str(_resolved(sqlite.insert(table), table, conflict).compile(dialect=sqlite.dialect()))


@cache
def _postgresql(table: Table, conflict: str | None) -> str:
    """Reads the parameter *rows*, a JSON list of objects by column."""
    names = table.columns.keys()
    rows = func.json_to_recordset(cast(bindparam("rows", type_=Text), postgresql.JSON))
    sent = rows.table_valued(*(column(each.name, each.type) for each in table.columns)).render_derived(with_types=True)
    statement = postgresql.insert(table).from_select(names, select(*(sent.c[name] for name in names)))
    return _text(_resolved(statement, table, conflict), "postgresql")


@cache
def _text(statement: UpdateBase, name: str) -> str:
    """*statement* as the driver takes it, with named parameters."""
    dialect = sqlite.dialect(paramstyle="named") if name == "sqlite" else psycopg.dialect()  # type: ignore[no-untyped-call]
    return str(statement.compile(dialect=dialect))


def _resolved(statement: Any, table: Table, conflict: str | None) -> Any:
    """*statement* with the action for rows that exist already."""
    key = list(table.primary_key)
    if conflict == "nothing":
        return statement.on_conflict_do_nothing(index_elements=key)
    if conflict == "update":
        fresh = {each.name: statement.excluded[each.name] for each in table.columns if not each.primary_key}
        return statement.on_conflict_do_update(index_elements=key, set_=fresh)
    return statement


# ---------------------------------------------------------------- values


def _encoded(row: Row, encoders: Sequence[tuple[int, Encoder]]) -> list[Any]:
    values = list(row)
    for index, encoder in encoders:
        if values[index] is not None:
            values[index] = encoder(values[index])
    return values


@cache
def _for_sqlite(table: Table) -> tuple[tuple[int, Encoder], ...]:
    """(position, encoder) of the columns that do not take values as they are."""
    return _encoders(table, _sqlite_encoder)


@cache
def _for_json(table: Table) -> tuple[tuple[int, Encoder], ...]:
    return _encoders(table, _json_encoder)


@cache
def _nested(table: Table) -> tuple[tuple[int, Encoder], ...]:
    """(position, encoder) of JSON columns, which SQLite keeps as text; it takes all other plain values as they are."""
    return _encoders(table, lambda type_: checked_dumps if isinstance(type_, (Encoded, JSON)) else None)


def _encoders(table: Table, encoder: Callable[[TypeEngine[Any]], Encoder | None]) -> tuple[tuple[int, Encoder], ...]:
    found = ((index, encoder(each.type), each.nullable) for index, each in enumerate(table.columns))
    return tuple((index, _or_none(each) if nullable else each) for index, each, nullable in found if each is not None)


def _or_none(encoder: Encoder) -> Encoder:
    return lambda value: None if value is None else encoder(value)


def _sqlite_encoder(type_: TypeEngine[Any]) -> Encoder | None:
    match type_:
        case Words():
            return checked
        case Encoded() | OneOf() | UtcDateTime():
            return type_.text
        case JSON():
            return checked_dumps
    return None


def _json_encoder(type_: TypeEngine[Any]) -> Encoder | None:
    """The encoder for *type_*, None if it needs none.  Text is checked when the whole is written."""
    match type_:
        case Encoded():
            return type_.plain
        case OneOf() | UtcDateTime():
            return type_.text
    return None
