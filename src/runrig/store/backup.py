"""A backup: every table at one moment, in a form that can be restored into either database.

A gzip file of JSON lines: a header, then the columns and rows of each table, then files of the data folder in pieces.
The last line has the counts and the SHA-256 of all lines before, which reveals a truncated or modified file. Backing up
is one transaction that sees one state and does not block writers; restoring is one transaction too.
"""

import gzip
import hashlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import IO, Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    LargeBinary,
    Select,
    String,
    Table,
    inspect,
    literal,
    select,
    type_coerce,
    update,
)

from runrig.domain.code_archive import GZIP
from runrig.domain.errors import Conflict, InvalidInput, ServerFault
from runrig.store import chain, schema, sums
from runrig.store.codec import Undecodable, dumps, loads
from runrig.store.columns import Encoded, OneOf, UtcDateTime, Words
from runrig.store.database import Database
from runrig.store.dialect import before_migration, insert_plain
from runrig.store.faults import translated
from runrig.store.plain_rows import RowChecker, lines, ordering
from runrig.store.rows import Row
from runrig.store.text import text_of
from runrig.store.transactions import found_tables

FORMAT = 1
ROWS_AT_ONCE = 2_000
BYTES_AT_ONCE = 16 * 1024 * 1024
PIECES_AT_ONCE = 8
"""Rows with a piece of code, which have up to 1 MiB."""
PIECE = 64 * 1024
"""Bytes of a file per line."""
STATE_FILES = ("backend", "clock.json", "tasks.json")
"""Files of backends in the data folder from which they resume."""
_WRITTEN_ANEW = (schema.checkpoints, schema.waiting, schema.workflow_sums)
_LEFT_OUT = (schema.leader, schema.browser_sessions, schema.deliveries, *_WRITTEN_ANEW)
LEFT_OUT = frozenset(table.name for table in _LEFT_OUT)
"""The leader is only current at the time, and a backup must not restore ended sessions or send old notices again."""
TABLES = tuple(table for table in schema.metadata.sorted_tables if table.name not in LEFT_OUT)


@dataclass(frozen=True, slots=True)
class Header:
    """*version*: of the program that wrote it. *tables*: version of the tables. *store*: kind of database. *taken_at*: in UTC.
    *head*: hash of the last commit (`store.chain`), "" for none.
    """

    version: str
    tables: str
    store: str
    revision: int
    taken_at: str
    head: str = ""


HEAD = tuple(field.name for field in fields(Header))


@dataclass(frozen=True, slots=True)
class Contents:
    """*rows*: by table. *lost*: credentials, as USER/NAME, without values in the backup; known after reading it."""

    header: Header
    rows: Mapping[str, int]
    files: int
    lost: tuple[str, ...] = field(default=(), compare=False)


# ---------------------------------------------------------------- writing


class BackupWriter:
    """Call `tables`, then `file` any number of times, then `end`."""

    def __init__(self, stream: IO[bytes], connection: Connection, *, version: str, taken_at: str) -> None:
        """Raises ServerFault if the tables are not those of this version."""
        check_tables(connection)
        revision = connection.execute(select(schema.meta.c.revision)).scalar_one()
        head = chain.head_text(connection)
        self.header = Header(version, schema.HEAD, connection.dialect.name, revision, taken_at, head)
        self._stream = stream
        # GzipFile would write the time of day, so that equal backups differ, and complain if it is left open after a failure.
        self._packed = zlib.compressobj(4, wbits=GZIP)
        self._hash = hashlib.sha256()
        self._rows: dict[str, int] = {}
        self._files = 0
        self._connection = connection
        self._line({"runrig_backup": FORMAT, **{name: getattr(self.header, name) for name in HEAD}})

    def tables(self) -> None:
        for table in TABLES:
            self._line({"table": table.name, "columns": table.columns.keys()})
            texts: dict[type, Callable[[Any], str]] = {UtcDateTime: UtcDateTime.text, LargeBinary: text_of}
            shown = [(at, texts[type(each.type)]) for at, each in enumerate(table.columns) if type(each.type) in texts]
            count = 0
            at_once = PIECES_AT_ONCE if table is schema.code_pieces else ROWS_AT_ONCE
            for row in self._connection.execution_options(yield_per=at_once).execute(_in_order(table)):
                values = list(row)
                for at, text in shown:
                    values[at] = None if values[at] is None else text(values[at])
                self._line(values)
                count += 1
            self._rows[table.name] = count

    def file(self, path: str, pieces: Iterable[bytes]) -> None:
        """*path*: below the data folder, with slashes."""
        self._line({"file": path})
        for piece in pieces:
            self._line(b64encode(piece).decode())
        self._files += 1

    def end(self) -> Contents:
        self._line({"rows": self._rows, "files": self._files, "sha256": self._hash.hexdigest()})
        self._stream.write(self._packed.flush())
        return Contents(self.header, self._rows, self._files)

    def _line(self, value: object) -> None:
        line = f"{dumps(value)}\n".encode()
        self._hash.update(line)
        self._stream.write(self._packed.compress(line))


def check_tables(connection: Connection) -> None:
    """Raises ServerFault if the tables are not those of this version."""
    found = found_tables(connection)
    if found != schema.HEAD:
        older = "" if found and found > schema.HEAD else ", or start this version on it once to migrate it"
        raise ServerFault(
            f"the database has schema {found or 'none'}, but this version of runrig needs {schema.HEAD}. "
            f"Use the version that wrote it{older}"
        )


def _in_order(table: Table) -> Select[Any]:
    """Selects rows by key, pools after their parents, so that they can be inserted in this order."""
    order: list[Any] = list(table.primary_key)
    if table is schema.pools:
        order.insert(0, table.c.parent.is_not(None))
    return select(*(_plain(column) for column in table.columns)).order_by(*order)


def _plain(column: Column[Any]) -> Any:
    """Returns the column as stored, with decoded JSON; omits sealed values."""
    if column is schema.credentials.c.sealed:
        return literal("").label(column.name)
    match column.type:
        case Encoded():
            return type_coerce(column, JSON(none_as_null=True)).label(column.name)
        case OneOf() | Words():
            return type_coerce(column, String()).label(column.name)
    return column


# ---------------------------------------------------------------- reading


class BackupReader:
    """`check` reads the whole file and must be called first. *name*: of the file, for messages."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name

    def check(self) -> Contents:
        """Returns what the file contains.

        Raises InvalidInput if it is not a backup, is damaged, comes from another version, or has an invalid row.
        """
        with self._damage():
            entries = self._entries()
            first, start = next(entries, (b"", None))
            header, digest = self._header(start), hashlib.sha256(first)
            content = _Content(header.revision)
            for line, entry in entries:
                if isinstance(entry, dict) and "sha256" in entry:
                    expected = {"rows": content.rows, "files": content.files, "sha256": digest.hexdigest()}
                    if entry != expected or next(entries, None):
                        raise Undecodable("its checksum does not match")
                    content.end()
                    return Contents(header, content.rows, content.files, tuple(content.lost))
                digest.update(line)
                content.take(entry)
            raise Undecodable("its end is missing")

    def fill(self, connection: Connection) -> None:
        """Inserts the rows into the empty tables."""
        for table, rows in self._batches():
            if table is schema.meta:
                _fill_meta(connection, rows[0])
            else:
                insert_plain(connection, table, rows)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yields (path, piece); the first piece of each file is empty."""
        path = ""
        for _, entry in self._entries():
            if isinstance(entry, dict):
                path = entry.get("file", "")
                if path:
                    yield path, b""
            elif isinstance(entry, str):
                yield path, b64decode(entry)

    def _batches(self) -> Iterator[tuple[Table, list[Row]]]:
        table: Table | None = None
        rows: list[Row] = []
        size = 0
        for line, entry in self._entries():
            is_row = isinstance(entry, tuple)
            if is_row:
                rows.append(entry)
                size += len(line)
            if rows and table is not None and (size > BYTES_AT_ONCE or len(rows) == ROWS_AT_ONCE or not is_row):
                yield table, rows
                rows, size = [], 0
            if isinstance(entry, dict):
                table = _named(entry) if "table" in entry else None

    def _entries(self) -> Iterator[tuple[bytes, Any]]:
        """Yields each line and its value; a row is a tuple in the order of our columns, whatever order its table names."""
        ordered: Callable[[list[Any]], Row] = tuple
        self._stream.seek(0)
        for line in lines(self._stream):
            entry = loads(line)
            if isinstance(entry, dict) and "table" in entry:
                ordered = ordering(_named(entry).columns.keys(), entry["columns"])
            yield line, ordered(entry) if isinstance(entry, list) else entry

    def _header(self, entry: Any) -> Header:
        if not isinstance(entry, dict) or "runrig_backup" not in entry:
            raise self._no_backup()
        found = Header(**{name: entry[name] for name in HEAD if name in entry})
        if entry["runrig_backup"] > FORMAT or found.tables > schema.HEAD:
            raise InvalidInput.one(
                f"{self._name} was created by a newer runrig ({found.version}, schema {found.tables}; this version supports up to "
                f"{schema.HEAD}). Restore it with that version"
            )
        if found.tables != schema.HEAD:
            raise InvalidInput.one(
                f"{self._name} was created by runrig {found.version} with schema {found.tables}, but this version uses "
                f"{schema.HEAD}. Restore it with that version, then start this version on it to migrate it"
            )
        return found

    def _no_backup(self) -> InvalidInput:
        return InvalidInput.one(f"{self._name} is not a backup. Use a file that `runrig backup` wrote")

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except gzip.BadGzipFile as error:
            if "CRC" not in str(error) and "length" not in str(error):
                raise self._no_backup() from error
            raise self._damaged(error) from error
        except (EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InvalidInput:
        return InvalidInput.one(f"{self._name} is damaged ({error}). Nothing was restored. Use another backup")


class _Content:
    """The lines between the first and the last of a backup. *rows*: by table."""

    def __init__(self, revision: int) -> None:
        self.rows: dict[str, int] = {}
        self.files = 0
        self.lost: list[str] = []
        self._rows_checked = RowChecker(revision)
        self._table: Table | None = None
        self._wrong: Undecodable | None = None

    def take(self, entry: Any) -> None:
        match entry:
            case tuple() if self._table is not None:
                self.rows[self._table.name] += 1
                self._check_row(self._table, entry)
                if self._table is schema.credentials:
                    self.lost.append(f"{entry[0]}/{entry[1]}")
            case {"table": _}:
                self._table = _named(entry)
                if len(self.rows) == len(TABLES) or self._table is not TABLES[len(self.rows)]:
                    raise Undecodable(f"table {self._table.name} is in the wrong place")
                self.rows[self._table.name] = 0
            case {"file": path}:
                self._table = None
                self.files += 1
                check_path(path)
            case str() if self.files:
                b64decode(entry, validate=True)
            case _:
                raise Undecodable(f"unexpected line {dumps(entry)[:80]}")

    def end(self) -> None:
        """Raises Undecodable for the first invalid row: the file is intact, but `runrig backup` did not write it."""
        if len(self.rows) < len(TABLES) or self.rows[schema.meta.name] != 1:
            raise Undecodable("tables are missing")
        if self._wrong is not None:
            raise self._wrong

    def _check_row(self, table: Table, values: Row) -> None:
        if self._wrong is not None:
            return
        try:
            self._rows_checked.check(table, values)
        except Undecodable as error:
            named = ", ".join(str(value) for value in values[: len(table.primary_key)])
            self._wrong = Undecodable(f"table {table.name}, row {self.rows[table.name]} ({named:.80}): {error}")


LOG_FILES = ("order", "stderr.log", "stdout.log")
"""Output files of an attempt on the local backend that are kept."""


def check_path(path: object) -> None:
    """Raises Undecodable unless a backup may contain *path*, below the data folder. A forged one cannot write elsewhere."""
    parts = PurePosixPath(path).parts if isinstance(path, str) else ()
    logs = len(parts) == 5 and parts[0] == "tasks" and parts[4] in LOG_FILES
    if (path not in STATE_FILES and not logs) or ".." in parts or "\0" in str(path):
        raise Undecodable(f"unexpected file {path!r:.80}")


def _named(entry: Mapping[str, Any]) -> Table:
    """Returns the table of *entry*. Raises Undecodable if it has other columns."""
    table = {each.name: each for each in TABLES}.get(entry["table"])
    if table is None or sorted(entry["columns"]) != sorted(table.columns.keys()):
        raise Undecodable(f"table {entry['table']!r} does not have the columns of this version")
    return table


def _fill_meta(connection: Connection, row: Row) -> None:
    """Takes the revision from the backup. The epoch never decreases, or an earlier leader could write."""
    values = dict(zip(schema.meta.columns.keys(), row, strict=True))
    now = connection.execute(select(schema.meta.c.epoch)).scalar_one()
    epoch = max(now, values["epoch"]) + 1
    connection.execute(update(schema.meta).values(revision=values["revision"], epoch=epoch))


# ---------------------------------------------------------------- into an empty database


def restore(database: Database, reader: BackupReader, then: Callable[[Mapping[str, str]], None]) -> None:
    """Restores into *database*, which is empty and owned by this process, in one transaction.

    *then*: called last, with the uuid of each workflow; if it fails, nothing is restored. Raises Conflict if it is not empty.
    """
    with translated(database.place), database.writer.begin() as connection:
        before_migration(connection, database.place)
        found = _found(connection)
        if found is not None:
            raise Conflict(f"{database.place} is not empty ({found}). Restore into an empty one: {database.elsewhere}")
        if found_tables(connection) is None:
            from runrig.store.migrate import upgrade

            upgrade(connection, None, database.place)
        reader.fill(connection)
        sums.recount(connection)
        columns = schema.workflows.c
        then({row.id: row.uuid for row in connection.execute(select(columns.id, columns.uuid))})


def _found(connection: Connection) -> str | None:
    """Describes what the database contains; None if it is empty, or has empty tables of this version."""
    there = set(inspect(connection).get_table_names())
    if not there:
        return None
    if found_tables(connection) != schema.HEAD:
        return f"it has the table {min(there)!r}"
    revision = connection.execute(select(schema.meta.c.revision)).scalar_one()
    if revision:
        return f"it is at revision {revision}"
    others = (table for table in TABLES if table is not schema.meta)
    full = [table.name for table in others if connection.execute(select(table).limit(1)).first() is not None]
    return f"there are rows in {full[0]}" if full else None
