"""Writing where the databases differ: insert or update, many rows together, one migration at a time.

A cycle writes tens of thousands of rows in one transaction, and a submission one row in each of many tables. So commits
bypass SQLAlchemy, which compiles each statement and binds values one by one. Statements are text, built once. SQLite
gets tuples. PostgreSQL, where each round trip is slow, gets all rows of a table in one statement. A few are a JSON list of
objects, with which a submission takes 4 ms instead of 6; many are a JSON list for each column, which takes a quarter of the
time to write.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Delete,
    Select,
    Table,
    Text,
    UpdateBase,
    bindparam,
    cast,
    column,
    delete,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.types import JSON, LargeBinary, TypeEngine

from runrig.domain.errors import ServerFault
from runrig.store.columns import Encoded, OneOf, UtcDateTime, Words
from runrig.store.postgresql import MIGRATION_KEY
from runrig.store.rows import Row
from runrig.store.schema.base import FIXED
from runrig.store.text import bytes_of, checked, checked_dumps, text_of

ROWS_AT_ONCE = 5_000
"""So that no parameter exceeds a few megabytes."""
MANY = 12
"""From this number of rows on, values are encoded column by column, and PostgreSQL gets columns."""

Encoder = Callable[[Any], Any]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Inserts *rows*; none of them may exist."""
    _execute(connection, table, rows, None)


def put_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Inserts *rows*, or overwrites all columns that can change if the key exists."""
    _execute(connection, table, rows, "update")


def insert_new(connection: Connection, table: Table, row: Row) -> None:
    """Inserts *row* unless its key exists."""
    _execute(connection, table, [row], "nothing")


def delete_rows(connection: Connection, table: Table, keys: Iterable[Sequence[str | int]]) -> None:
    """Deletes the rows with these primary keys."""
    for key in keys:
        statement, names = _deletion(table)
        run(connection, statement, dict(zip(names, key, strict=True)))


def insert_plain(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Inserts rows of plain values, as in a backup: times and enums as text, nested values as JSON."""
    _execute(connection, table, rows, None, plain=True)


def run(connection: Connection, statement: UpdateBase, values: Mapping[str, object]) -> int:
    """Executes *statement*, which is cached for good; returns the number of changed rows."""
    if connection.dialect.name == "sqlite":
        changed: int = _driver(connection).execute(_text(statement, "sqlite"), values).rowcount
        return changed
    return connection.exec_driver_sql(_text(statement, "postgresql"), dict(values)).rowcount


def before_migration(connection: Connection, place: str) -> None:
    """Blocks other migrations of this database until the transaction ends. Raises ServerFault if it cannot store all text."""
    if connection.dialect.name == "postgresql":  # SQLite allows only one writer anyway.
        connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_KEY)))
        encoding = connection.execute(select(func.current_setting("server_encoding"))).scalar_one()
        if encoding != "UTF8":
            raise ServerFault(
                f"{place} uses encoding {encoding}. Create one with `createdb --encoding UTF8 --template template0`, "
                "and use it in the URL"
            )


# ---------------------------------------------------------------- statements


def _execute(
    connection: Connection,
    table: Table,
    rows: Sequence[Row],
    conflict: str | None,
    *,
    plain: bool = False,
) -> None:
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        encoders = _encoders(table, _plain_encoder if plain else _sqlite_encoder)
        few = len(rows) < MANY
        encoded = [_encoded(row, encoders) for row in rows] if few else zip(*_columns(rows, encoders), strict=True)
        _driver(connection).executemany(_sqlite(table, conflict), encoded)
        return
    for statement, values in statements(table, rows, conflict, plain=plain):
        connection.exec_driver_sql(statement, values)


def statements(
    table: Table, rows: Sequence[Row], conflict: str | None = "update", *, plain: bool = False
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields statements for PostgreSQL that write *rows*, with their parameters."""
    names, encoders = table.columns.keys(), () if plain else _encoders(table, _json_encoder)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        if len(some) < MANY:
            objects = [dict(zip(names, _encoded(row, encoders), strict=True)) for row in some]
            yield _postgresql(table, conflict), {"rows": checked_dumps(objects)}
            continue
        columns = _columns(some, encoders)
        yield (
            _of_columns(table, conflict),
            {f"c{index}": checked_dumps(values) for index, values in enumerate(columns)},
        )


def _driver(connection: Connection) -> Any:
    """Returns SQLite's own connection, in the same transaction. Not PostgreSQL's, because SQLAlchemy has to notice if it breaks."""
    return connection.connection.driver_connection


@cache
def _sqlite(table: Table, conflict: str | None) -> str:
    """Returns an insert with a placeholder for each column."""
    return str(_resolved(sqlite.insert(table), table, conflict).compile(dialect=sqlite.dialect()))


@cache
def _postgresql(table: Table, conflict: str | None) -> str:
    """Returns an insert from the parameter *rows*, a JSON list of objects by column."""
    rows = func.json_to_recordset(cast(bindparam("rows", type_=Text), postgresql.JSON))
    typed = [column(each.name, Text() if _is_json(each) else each.type) for each in table.columns]
    named = rows.table_valued(*typed).render_derived(with_types=True)
    values = [cast(named.c[each.name], each.type) if _is_json(each) else named.c[each.name] for each in table.columns]
    return _inserted(table, conflict, select(*values))


@cache
def _of_columns(table: Table, conflict: str | None) -> str:
    """Returns an insert from the parameters *c0*, *c1*, …: a JSON list for each column."""
    names = [f"c{index}" for index in range(len(table.columns))]
    lists = ", ".join(f"json_array_elements_text(:{name})" for name in names)
    # A cast to a shorter text would cut it off.
    values = [
        name if isinstance(each.type, Words | OneOf) else f"{name}::{each.type.compile(psycopg.dialect())}"  # type: ignore[no-untyped-call]
        for name, each in zip(names, table.columns, strict=True)
    ]
    rows = text(f"ROWS FROM ({lists}) AS sent ({', '.join(names)})")
    found: list[Any] = [literal_column(each) for each in values]
    return _inserted(table, conflict, select(*found).select_from(rows))


@cache
def _deletion(table: Table) -> tuple[Delete, list[str]]:
    """Returns the statement, and its parameters, which cannot have the names of their columns."""
    names = {f"key_{column.name}": column for column in table.primary_key}
    return delete(table).where(*(column == bindparam(name) for name, column in names.items())), list(names)


def _is_json(each: Column[Any]) -> bool:
    return isinstance(each.type, Encoded | JSON)


def _inserted(table: Table, conflict: str | None, rows: Select[Any]) -> str:
    statement = postgresql.insert(table).from_select(table.columns.keys(), rows)
    return _text(_resolved(statement, table, conflict), "postgresql")


@cache
def _text(statement: UpdateBase, name: str) -> str:
    """Returns *statement* with named parameters as the driver expects them."""
    dialect = sqlite.dialect(paramstyle="named") if name == "sqlite" else psycopg.dialect()  # type: ignore[no-untyped-call]
    return str(statement.compile(dialect=dialect))


def _resolved(statement: Any, table: Table, conflict: str | None) -> Any:
    """Returns *statement* with the action for existing rows."""
    key = list(table.primary_key)
    if conflict == "nothing":
        return statement.on_conflict_do_nothing(index_elements=key)
    if conflict == "update":
        fresh = {
            each.name: statement.excluded[each.name]
            for each in table.columns
            if not each.primary_key and each.name not in table.info.get(FIXED, ())
        }
        return statement.on_conflict_do_update(index_elements=key, set_=fresh)
    return statement


# ---------------------------------------------------------------- values


def _encoded(row: Sequence[Any], encoders: Sequence[tuple[int, Encoder]]) -> list[Any]:
    values = list(row)
    for index, encoder in encoders:
        if values[index] is not None:
            values[index] = encoder(values[index])
    return values


def _columns(rows: Sequence[Row], encoders: Sequence[tuple[int, Encoder]]) -> list[Sequence[Any]]:
    """Returns the encoded values column by column, which takes half the time for many rows."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for index, encoder in encoders:
        if encoder is not checked:
            columns[index] = [None if value is None else encoder(value) for value in columns[index]]
        elif "\0" in "".join(filter(None, columns[index])):
            columns[index] = _encoded(columns[index], [(at, checked) for at in range(len(rows))])
    return columns


@cache
def _encoders(table: Table, encoder: Callable[[TypeEngine[Any]], Encoder | None]) -> tuple[tuple[int, Encoder], ...]:
    """Returns (position, encoder) of the columns whose values must be converted."""
    found = ((index, encoder(each.type)) for index, each in enumerate(table.columns))
    return tuple((index, each) for index, each in found if each is not None)


class Dumped(NamedTuple):
    """A JSON value with its text, for who needs both."""

    plain: Any
    text: str


def _plain_encoder(type_: TypeEngine[Any]) -> Encoder | None:
    """Encodes JSON, which SQLite stores as text, and bytes. It stores other plain values as they are."""
    match type_:
        case Encoded() | JSON():
            return checked_dumps
        case LargeBinary():
            return bytes_of
    return None


def _sqlite_encoder(type_: TypeEngine[Any]) -> Encoder | None:
    match type_:
        case Words():
            return checked
        case Encoded() | OneOf() | UtcDateTime():
            return type_.text
        case JSON():
            return lambda plain: plain.text if type(plain) is Dumped else checked_dumps(plain)
    return None


def _json_encoder(type_: TypeEngine[Any]) -> Encoder | None:
    """Returns the encoder for *type_*, None if it needs none. Text is checked when everything is written. JSON is a list or an
    object, which PostgreSQL reads as the same text, whether it is sent as text or as a part of the whole.
    """
    match type_:
        case Encoded():
            return type_.text if type_.alike else type_.plain
        case OneOf() | UtcDateTime():
            return type_.text
        case JSON():
            return lambda plain: plain.text if type(plain) is Dumped else plain
        case LargeBinary():
            return text_of
    return None
