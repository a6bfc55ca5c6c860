"""Writes the dump of a store with the representative history in it: ``python -m tests.store.make_dump tests/store/data/vX.Y.Z.sql``.

Run once per release, from the repository's root; the same code gives the same bytes.
"""

import json
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import JSON, Boolean, DateTime, MetaData, create_engine, null
from sqlalchemy.types import TypeEngine

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


def restore_in_postgresql(text: str, url: str, scratch: Path) -> None:
    """The same in the empty database of *url*: tables of that release, made by its migration, and the rows of *text* in them."""
    restore(text, scratch)
    engine = create_engine(url)
    with closing(sqlite3.connect(scratch)) as source, engine.begin() as target:
        source.row_factory = sqlite3.Row
        (release,) = source.execute("SELECT version_num FROM alembic_version").fetchone()
        config = Config()
        config.set_main_option("script_location", "runrig.store:migrations")
        config.attributes["connection"] = target
        command.upgrade(config, release)
        tables = MetaData()
        tables.reflect(target)
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            target.execute(table.delete())
            # Tables of usage have no rowid, and need no order.
            order = "" if table.name.startswith("usage_") else " ORDER BY rowid"
            for row in source.execute(f'SELECT * FROM "{table.name}"{order}'):
                target.execute(table.insert(), {each.name: read(each.type, row[each.name]) for each in table.columns})
    engine.dispose()


def read(kind: TypeEngine[Any], stored: Any) -> object:
    """What SQLite keeps as text or as a number, as what it is."""
    if stored is None:
        return null() if isinstance(kind, JSON) else None  # a reflected JSON column would store the JSON value null
    if isinstance(kind, DateTime):
        return datetime.fromisoformat(stored).replace(tzinfo=UTC)
    if isinstance(kind, JSON):
        return json.loads(stored)
    return bool(stored) if isinstance(kind, Boolean) else stored


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(dump(), encoding="utf-8")
