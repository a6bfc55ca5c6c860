"""Transactions on one database, until `close` and while no other server leads.

Reads can come from any thread; writes are serial.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, Select, inspect, select

from runrig.domain.errors import ServerFault, Unavailable
from runrig.store import schema
from runrig.store.database import Database
from runrig.store.dialect import before_migration
from runrig.store.faults import translated

T = TypeVar("T")

CLOSE_WAIT_S = 2.0


class Transactions:
    """*place*: name of the database in messages. *epoch*: of this leadership; None where servers do not take turns."""

    def __init__(self, database: Database, epoch: int | None = None) -> None:
        self.database = database
        self.place = database.place
        self.epoch = epoch
        self.overtaken = False
        """Set when a write found that another server leads; nothing is stored from then on."""
        self._writes = RLock()
        self._closed = False

    def close(self) -> None:
        """Waits briefly for a write in progress; then refuses reads and writes."""
        self._closed = True
        free = self._writes.acquire(timeout=CLOSE_WAIT_S)
        try:
            self.database.close()
        finally:
            if free:
                self._writes.release()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state throughout; writers continue."""
        self._check_open()
        self.database.watch()
        with translated(self.place), self.database.reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, fenced: bool = True) -> Iterator[Connection]:
        """*fenced* False: the caller checks the epoch."""
        with self._writes:
            self._check_open()
            self.database.watch()
            with translated(self.place), self.database.writer.begin() as connection:
                if fenced:
                    self.check_epoch(connection)
                yield connection
                self.database.watch()
            self.database.watch()  # A commit to a deleted file must not be reported as done.

    def check_epoch(self, connection: Connection) -> None:
        """Raises Unavailable if another server leads. Otherwise none can take over before the transaction ends."""
        if self.epoch is None:
            return
        stored = connection.execute(select(schema.meta.c.epoch).with_for_update(read=True)).scalar_one()
        if stored != self.epoch:
            self.overtaken = True
            raise Unavailable(
                f"another server has become the leader of {self.place} (epoch {stored}; this server had {self.epoch}). "
                "Nothing was stored. Try again",
                {"epoch": self.epoch, "stored": stored},
            )

    def migrate(
        self,
        raise_epoch: Callable[[Connection], int | None] | None = None,
        when_empty: Callable[[str], None] | None = None,
    ) -> None:
        """Migrates the tables to this version.

        *when_empty*: called with the name of the database if it has no tables; if it raises, none are created.

        *raise_epoch*: supplies the epoch if it had no table. Raises ServerFault if the tables belong to another program
        or a newer version.
        """
        with self.writing() as connection:
            before_migration(connection, self.place)
            self.database.inspect(connection)
            tables, version = inspect(connection).get_table_names(), found_tables(connection)
            if version is None and tables:
                raise ServerFault(
                    f"{self.place} belongs to another program (it has the table {min(tables)!r}). "
                    f"Move it away to start from scratch, or {self.database.elsewhere}"
                )
            if not tables and when_empty is not None:
                when_empty(self.place)
            if version != schema.HEAD:
                # Alembic takes 0.4 s to import, which a start without a migration must not pay.
                from runrig.store.migrate import upgrade

                upgrade(connection, version, self.place)
        if raise_epoch is not None and self.epoch is None:
            with self.writing() as connection:
                epoch = raise_epoch(connection)
            self.epoch = epoch

    def _check_open(self) -> None:
        # A closed pool would reopen, and take the database from the server that has it now.
        if self._closed:
            raise Unavailable(f"this server no longer uses {self.place}. Try again")


def found_tables(connection: Connection) -> str | None:
    """Returns the migration that created the tables; None if it is not one of runrig's."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return found


def in_parts(items: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    """Yields *items* in parts that one statement or one moment can take."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


class Tables:
    """Some tables of a database, which its subclasses read and write. Each question is a transaction of its own."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def _rows(self, statement: Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        with self._transactions.reading() as connection:
            return connection.execute(statement, values).all()

    def _all(self, of_row: Callable[[RowMapping], T], statement: Select[Any]) -> tuple[T, ...]:
        """Returns what *of_row* makes of each row."""
        with self._transactions.reading() as connection:
            return tuple(map(of_row, connection.execute(statement).mappings()))

    def _value(self, statement: Select[T]) -> T | None:
        """Returns the first column of the first row; None without a row."""
        with self._transactions.reading() as connection:
            return connection.execute(statement).scalar()
