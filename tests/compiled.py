"""A statement is compiled once in each process of the tests, not again for each of the thousands of stores that the process opens.

SQLAlchemy keeps compiled statements for each engine, and a server has one engine for its life.  A third of what it takes to begin
with an empty store, and most of what each first question takes, is to compile the same 200 statements.
"""

from typing import Any

import sqlalchemy
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from runrig.store import postgresql, sqlite

_COMPILED: LRUCache[Any, Any] = LRUCache(5000)


class _Alike:
    """What is compiled for one engine is used by all others with the same dialect, because the dialects are equal."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class Sqlite(_Alike, SQLiteDialect_pysqlite):
    supports_statement_cache = True


class Postgresql(_Alike, PGDialect_psycopg):
    supports_statement_cache = True


def _create_engine(url: str | sqlalchemy.URL, **options: Any) -> sqlalchemy.Engine:
    found = sqlalchemy.make_url(url)
    engine = sqlalchemy.create_engine(found.set(drivername=f"{found.get_backend_name()}+alike"), **options)
    engine.update_execution_options(compiled_cache=_COMPILED)
    return engine


def share_compiled_statements() -> None:
    registry.register("sqlite.alike", __name__, Sqlite.__name__)
    registry.register("postgresql.alike", __name__, Postgresql.__name__)
    for module in (postgresql, sqlite):
        vars(module)["create_engine"] = _create_engine
