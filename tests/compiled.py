"""A statement is compiled once in each process of the tests, not again for each of the thousands of stores that the process opens.

SQLAlchemy keeps compiled statements for each engine, and a server has one engine for its life.  A third of what it takes to begin
with an empty store, and most of what each first question takes, is to compile the same 200 statements.
"""

from typing import Any

import sqlalchemy
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from runrig.store import postgresql, sqlite

_COMPILED: LRUCache[Any, Any] = LRUCache(5000)


def _create_engine(*args: Any, **options: Any) -> sqlalchemy.Engine:
    engine = sqlalchemy.create_engine(*args, **options)
    engine.update_execution_options(compiled_cache=_COMPILED)
    return engine


def _same(one: object, other: object) -> bool:
    return type(one) is type(other)


def _hash(one: object) -> int:
    return hash(type(one))


def share_compiled_statements() -> None:
    """What is compiled for one engine of a store is then used by all that speak the same dialect."""
    for dialect in (PGDialect_psycopg, SQLiteDialect_pysqlite):
        kind: Any = dialect
        kind.__eq__, kind.__hash__ = _same, _hash
    for module in (postgresql, sqlite):
        vars(module)["create_engine"] = _create_engine
