"""SQLite: a file in the data folder.

There is one writer at a time, which locks at its first statement (BEGIN IMMEDIATE), so it never fails midway because of
another write. Readers see the state as of their first statement, and never wait (WAL).
"""

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event

from runrig.domain.errors import ServerFault, Unavailable
from runrig.ports.disk import identity, is_full, sync_folder
from runrig.store import stored_values
from runrig.store.codec import loads
from runrig.store.database import Database
from runrig.store.faults import damaged, full
from runrig.store.lock import DataLock
from runrig.store.text import checked_dumps

BUSY_TIMEOUT_S = 30
READERS = 40
"""Open connections, one per server thread, because opening one costs more than most queries."""
ROOM = 1 << 20
"""Bytes that must be free before a full disk counts as usable again: about a hundred commits."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # An accepted submission survives a power failure (rule W2). One row and its event: 1.3 ms; with NORMAL 1.0 ms.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    # An UPDATE of many rows keeps a copy of each page that it changes, beyond 64 kB in a temporary file: in a commit of 110
    # admissions, 4,000 more writes to disk.
    "PRAGMA temp_store = MEMORY",
)


def open_sqlite(path: Path, *, exclusive: bool) -> Database:
    place = f"the database {path}"
    _make_file(path, place)
    engine = _engine(path, place)
    database = Database(
        place,
        elsewhere="choose another data folder",
        reader=engine,
        writer=engine.execution_options(writer=True),
        release=lambda: None,
    )
    if not exclusive:
        return database
    lock = DataLock(path.with_name(f"{path.name}.lock"), place)
    watch = FileWatch(path, place, lock)
    return replace(database, release=lock.release, watch=watch.check, room=watch.room, inspect=watch.inspect)


class FileWatch:
    """Notices changes to the file that SQLite does not notice."""

    def __init__(self, path: Path, place: str, lock: DataLock) -> None:
        """*path* exists, and this process holds *lock*, which is in the same folder."""
        self._place = place
        self._lock = lock
        self._files = tuple(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm"))
        self._known = {path: identity(path)}

    def inspect(self, connection: Connection) -> None:
        """Raises ServerFault for inconsistent pages, records, values or references.

        *connection* can write, so all files exist. O(rows), 2 us each.
        """
        found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
        wrong = stored_values.problem(connection) if found == "ok" else found.replace("\n", " ")
        if wrong is not None:
            raise damaged(self._place, wrong)
        self._known = {file: identity(file) for file in self._files}

    def check(self) -> None:
        """Raises ServerFault if a file was deleted or replaced: later writes to it would be lost.

        Raises Unavailable if the folder has become read-only: SQLite maps a file in it, and a write would kill the
        process. Five system calls, 6 us.
        """
        try:
            self._lock.probe()
        except OSError as error:
            raise Unavailable(
                f"the folder of {self._place} cannot be written ({error.strerror}), so nothing is read or stored. The "
                "server continues when the folder is writable again"
            ) from error
        for file, known in self._known.items():
            found = identity(file)
            if found != known:
                raise ServerFault(
                    f"{file} was {'replaced' if found else 'deleted'} while the server used it, so nothing more is stored. Stop "
                    "the server, restore a backup with `runrig restore` into an empty folder, and start it there"
                )

    def room(self) -> None:
        """Raises ServerFault if the disk is full. A single row may still fit into SQLite's free pages, but a submission does not."""
        _check_room(self._files[0].parent, self._place)


def _check_room(folder: Path, place: str) -> None:
    """Raises ServerFault if the disk of *folder* is full."""
    try:
        with TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError as error:
        if is_full(error):
            raise full(place) from error
        raise


def _make_file(path: Path, place: str) -> None:
    """Creates an empty file that only its owner can read, because specifications contain environments. SQLite's other
    files copy the mode.
    """
    try:
        made = not path.exists()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        if not path.is_file():
            raise ServerFault(f"{place} is not a regular file. Move it away, or choose another data folder")
        if made:
            for folder in (path.parent, path.absolute().parent.parent):  # also their entries must be durable
                with suppress(PermissionError):  # A folder in which files can be created, but not listed.
                    sync_folder(folder)
    except OSError as error:
        if is_full(error):
            raise full(place) from error
        blocked = isinstance(error, (FileExistsError, NotADirectoryError))
        cause = f"{path.parent} is not a folder" if blocked else error.strerror
        raise ServerFault(
            f"{place} cannot be created ({cause}). Grant the server's user write permission on its folder, "
            "or choose another data folder"
        ) from error


def _engine(path: Path, place: str) -> Engine:
    engine = create_engine(
        # With mode=rw, so that a deleted file is not created again.
        URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"}),
        json_serializer=checked_dumps,
        json_deserializer=loads,
        connect_args={"timeout": BUSY_TIMEOUT_S},
        hide_parameters=True,
        pool_size=READERS,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", partial(_for_want_of_room, path.parent, place))
    return engine


def _for_want_of_room(folder: Path, place: str, context: ExceptionContext) -> None:
    """SQLite reports some effects of a full disk as disk faults; raises the real cause."""
    if str(getattr(context.original_exception, "sqlite_errorname", "")).startswith("SQLITE_IOERR"):
        with suppress(OSError):
            _check_room(folder, place)


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
    driver: Any = connection.connection.driver_connection
    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")
