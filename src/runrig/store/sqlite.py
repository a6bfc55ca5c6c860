"""SQLite: a file in the data folder.

One writer at a time, which locks at its first statement (BEGIN IMMEDIATE), so it never fails midway because another wrote since
it read; readers see the state as of their first statement, and never wait (WAL).
"""

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from runrig.domain.errors import ServerFault
from runrig.store.codec import loads
from runrig.store.database import Database
from runrig.store.lock import DataLock
from runrig.store.text import checked_dumps

BUSY_TIMEOUT_S = 30
READERS = 40
"""Connections kept open, one per thread of the server: opening one costs more than most queries."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # An accepted submission survives a power cut (law W2).  One row and its event: 1.3 ms, with NORMAL 1.0 ms.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


def open_sqlite(path: Path, *, exclusive: bool) -> Database:
    place = f"the database {path}"
    _make_file(path, place)
    lock = DataLock(path.with_name(f"{path.name}.lock"), place) if exclusive else None
    engine = _engine(path)
    return Database(
        place,
        elsewhere="choose another folder with --data",
        reader=engine,
        writer=engine.execution_options(writer=True),
        release=lambda: None if lock is None else lock.release(),
    )


def _make_file(path: Path, place: str) -> None:
    """Makes an empty file that only its owner can read: specifications hold environments.  SQLite's other files copy the mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        blocked = isinstance(error, (FileExistsError, NotADirectoryError))
        cause = f"{path.parent} is not a folder" if blocked else error.strerror
        raise ServerFault(
            f"{place} cannot be made ({cause}): give the server's user write permission on its folder, "
            "or choose another folder with --data"
        ) from error


def _engine(path: Path) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        json_serializer=checked_dumps,
        json_deserializer=loads,
        connect_args={"timeout": BUSY_TIMEOUT_S},
        hide_parameters=True,
        pool_size=READERS,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(dbapi: Any, _record: object) -> None:
    # The driver's own transactions begin late and do not cover DDL.
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
