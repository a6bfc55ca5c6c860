"""Checks and rebuilds the usage of a server's database, for `runrig admin usage`."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from runrig.service.usage.recount import Difference, Recount, recount
from runrig.store import SqlStore
from runrig.store.backup import check_tables
from runrig.store.opening import open_database
from runrig.store.transactions import Transactions

__all__ = ["Difference", "Recount", "check_usage", "rebuild_usage"]


def check_usage(database: str | Path, since: float | None) -> Recount:
    """Only reads; a server can run. Raises NotFound or Unavailable if there is no usable database, and what `recount` raises."""
    with closing(SqlStore.look(database)) as store:
        return _counted(store, since)


def rebuild_usage(database: str | Path, since: float | None, before: Callable[[Recount], None]) -> Recount:
    """Replaces what differs from the log, in one transaction. *before*: called first if anything differs; may raise.

    Raises ServerFault or Unavailable if a server uses the database, and what `check_usage` raises.
    """
    opened = open_database(database, exclusive=True, make=False)
    with closing(SqlStore(Transactions(opened))) as store:
        found = _counted(store, since)
        if found.differences:
            before(found)
            store.usage.replace(found.position, found.wrong)
        return found


def _counted(store: SqlStore, since: float | None) -> Recount:
    with store.transactions.reading() as connection:
        check_tables(connection)
    return recount(store, since)
