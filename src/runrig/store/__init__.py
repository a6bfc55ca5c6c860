"""Where the state and its log are kept: SQLAlchemy Core on SQLite or PostgreSQL, with migrations."""

from runrig.store.sql import SqlStore

__all__ = ["SqlStore"]
