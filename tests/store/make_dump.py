"""Writes the dump of a store with the representative history in it: ``python -m tests.store.make_dump tests/store/data/vX.Y.Z.sql``.

Run once per release, from the repository's root; the same code gives the same bytes.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from runrig.store import SqlStore

from .values import fill


def dump() -> str:
    """The database as SQL text, schema and data."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runrig.db"
        store = SqlStore.open(path)
        fill(store)
        store.close()
        with closing(sqlite3.connect(path)) as connection:
            return "\n".join(connection.iterdump()) + "\n"


def restore(text: str, path: Path) -> None:
    """The database that *text* is the dump of, as a new file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(dump(), encoding="utf-8")
