"""A fresh, empty store of either kind, for any test.

    from tests.stores import KINDS, store_url

    def test_something_on_both(any_store: str) -> None:      # runs twice: sqlite, postgresql
        store = SqlStore.open(any_store, exclusive=True)

    with store_url("postgresql", folder) as url: ...         # where a fixture does not fit

`any_store` is a fixture of every test (tests/conftest.py).  The database lives as long as the test or the ``with``, so it can be
closed and opened again; the second server of a test opens the same URL.  On PostgreSQL it is a database of its own on the one
real server of the process (`tests.postgres`).  Both are copied from one that has the tables already: 1 and 30 ms.  *tables* false: really
empty, as a new installation finds it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from runrig.store import SqlStore
from tests import postgres

KINDS = ("sqlite", "postgresql")
_TEMPLATE = "with_tables"


@contextmanager
def store_url(kind: str, folder: Path, *, tables: bool = True) -> Iterator[str]:
    """What `SqlStore.open` takes.  *folder*: where the file of SQLite is put."""
    if kind == "sqlite":
        file = folder / "data" / "runrig.db"
        yield f"sqlite:///{with_tables(file) if tables else file}"
        return
    server = postgres.server()
    with server.database(_template() if tables else "template1") as name:
        yield server.url(name)


def with_tables(file: Path) -> Path:
    """*file*, where an empty database of SQLite is afterwards, unless there is one already.  A copy takes 1 ms, its tables 70."""
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(_sqlite_with_tables())
    return file


@cache
def _sqlite_with_tables() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "runrig.db"
        SqlStore.open(file).close()
        return file.read_bytes()


@cache
def _template() -> str:
    server = postgres.server()
    server.sql(f"CREATE DATABASE {_TEMPLATE}")
    SqlStore.open(server.url(_TEMPLATE)).close()
    return _TEMPLATE
