"""Storage of the state and its log: SQLAlchemy Core on SQLite or PostgreSQL, with migrations."""

from runrig.store.sql import SqlStore

__all__ = ["SqlStore"]
