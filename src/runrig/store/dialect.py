"""What differs between databases: how to connect, how a writer begins, how to insert or update.  Everything else is portable SQL.

SQLite: one writer at a time, who says so at its first statement (BEGIN IMMEDIATE), so that it never fails in the middle because
another wrote since it read; readers see the state as of their first statement, and never wait (WAL).
"""

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import ArgumentError

from runrig.domain.errors import InvalidInput
from runrig.store.codec import dumps, loads

BUSY_TIMEOUT_S = 30
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # An accepted submission survives a power cut (law W2).  One row and its event: 1.3 ms, with NORMAL 1.0 ms.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


def sqlite_path(url_or_path: str | Path) -> Path:
    """The file that ``sqlite:///PATH`` or a plain path means.  Raises InvalidInput for any other database."""
    if isinstance(url_or_path, Path) or "://" not in url_or_path:
        return Path(url_or_path)
    try:
        url = make_url(url_or_path)
    except ArgumentError:
        raise InvalidInput.one(
            f"{url_or_path!r} is not a database URL: write sqlite:///PATH, or the path alone"
        ) from None
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        raise InvalidInput.one(f"{url.render_as_string()} cannot be used: write sqlite:///PATH, or the path alone")
    return Path(url.database)


def sqlite_engine(path: Path) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        json_serializer=dumps,
        json_deserializer=loads,
        connect_args={"timeout": BUSY_TIMEOUT_S},
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def writer(engine: Engine) -> Engine:
    """*engine*, whose transactions take the write lock when they begin."""
    return engine.execution_options(writer=True)


def _prepare(dbapi: Any, _record: object) -> None:
    # The driver's own transactions begin late and leave DDL out.
    dbapi.isolation_level = None
    try:
        for pragma in _PRAGMAS:
            dbapi.execute(pragma)
    except Exception:
        dbapi.close()
        raise


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")


def insert_new(table: Table) -> sqlite.Insert:
    """Inserts rows, and leaves those alone whose key is there."""
    return sqlite.insert(table).on_conflict_do_nothing(index_elements=list(table.primary_key))


def insert_or_update(table: Table) -> sqlite.Insert:
    """Inserts rows; of those whose key is there it writes all columns."""
    statement = sqlite.insert(table)
    fresh = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=fresh)
