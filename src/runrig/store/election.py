"""Which of several servers leads a database, and its heartbeat.

PostgreSQL: the leader owns the database (`store.postgresql`), and writes a heartbeat by the clock of the database. It
raises the epoch before it changes anything; the previous leader then finds another epoch at its next write, and stores
nothing. A silent leader loses its session, and its lock with it. SQLite: one server per file; a second one is refused.
"""

import os
import socket
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, func, inspect, select, text, update
from sqlalchemy.dialects import postgresql

from runrig.ports.election import Election, Holder
from runrig.store import schema
from runrig.store.database import Database, is_postgresql, parsed
from runrig.store.faults import translated
from runrig.store.opening import open_database
from runrig.store.postgresql import holding, in_words, looking_engine, process_name
from runrig.store.sql import SqlStore
from runrig.store.transactions import Transactions

_LEADER = schema.leader.c


class SqlTerm(Transactions):
    """`ports.election.Term`; `open` returns its store. The epoch is also None while its table does not exist."""

    def __init__(self, database: Database, looking: Engine | None) -> None:
        """*looking* None: no heartbeat is needed."""
        super().__init__(database)
        self._looking = looking

    def begin(self) -> None:
        """Takes the database and the next epoch, if any, so that heartbeats start before a migration."""
        if self._looking is not None:
            with self.writing() as connection:
                epoch = _raise_epoch(connection)
            self.epoch = epoch

    def open(self, when_empty: Callable[[str], None] | None = None) -> SqlStore:
        """Returns the store, migrated to this version, under the epoch of this term. *when_empty*: see `Transactions.migrate`."""
        self.migrate(None if self._looking is None else _raise_epoch, when_empty)
        return SqlStore(self)

    def beat(self) -> bool:
        if self._looking is None or self.epoch is None:
            return True
        statement = update(schema.leader).where(_LEADER.epoch == self.epoch).values(heartbeat_at=func.clock_timestamp())
        with translated(self.place), self._looking.begin() as connection:
            return bool(connection.execute(statement).rowcount)


class PostgresqlElection:
    """`ports.election.Election` between servers of one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = looking_engine(parsed(url))
        self._place = open_database(url, exclusive=False).place

    def holder(self) -> Holder | None:
        with translated(self._place), self._engine.begin() as connection:
            owner = holding(connection)
            if owner is None:
                return None
            name, _, session = owner
            return Holder(in_words(*owner), session, _silent_s(connection, name))

    def take(self) -> SqlTerm:
        term = SqlTerm(open_database(self._url, exclusive=True), self._engine)
        try:
            term.begin()
        except BaseException:
            term.close()
            raise
        return term

    def end(self, holder: Holder) -> None:
        # Checked again in the same statement, because the session number may have been reused.
        statement = text(
            "SELECT pg_terminate_backend(:session, 1000) FROM pg_locks WHERE pid = :session AND locktype = 'advisory'"
        )
        with translated(self._place), self._engine.begin() as connection:
            connection.execute(statement, {"session": holder.session})

    def close(self) -> None:
        self._engine.dispose()


class SqliteElection:
    def __init__(self, url: str) -> None:
        self._url = url

    def holder(self) -> Holder | None:
        """Returns None: `take` does not wait, and names the holder."""
        return None

    def take(self) -> SqlTerm:
        return SqlTerm(open_database(self._url, exclusive=True), None)

    def end(self, holder: Holder) -> None:
        raise AssertionError(f"a SQLite file has no holder to remove, not even {holder.who}")

    def close(self) -> None:
        """Does nothing."""


def election(url: str) -> Election[SqlTerm]:
    """Returns the election between the servers of that database. Raises InvalidInput for an invalid URL."""
    return PostgresqlElection(url) if is_postgresql(url) else SqliteElection(url)


def _silent_s(connection: Connection, name: str) -> float | None:
    """Seconds since the last heartbeat, if it came from the process whose sessions have *name*, else None."""
    if not inspect(connection).has_table(schema.leader.name):
        return None
    age = func.extract("epoch", func.clock_timestamp() - _LEADER.heartbeat_at)
    row: Any = connection.execute(select(_LEADER.process, _LEADER.host, age)).one_or_none()
    if row is None or process_name(row[0], row[1]) != name:
        return None
    return float(row[2])


def _raise_epoch(connection: Connection) -> int | None:
    """Raises the epoch, writes its first heartbeat and returns it; None if there are no tables yet."""
    if not inspect(connection).has_table(schema.leader.name):
        return None
    raised = update(schema.meta).values(epoch=schema.meta.c.epoch + 1).returning(schema.meta.c.epoch)
    epoch: int = connection.execute(raised).scalar_one()
    row = {"epoch": epoch, "process": os.getpid(), "host": socket.gethostname(), "heartbeat_at": func.clock_timestamp()}
    statement = postgresql.insert(schema.leader).values(id=1, **row)
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=row))
    return epoch
