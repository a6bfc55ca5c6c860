"""What a store asks its database."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, Pool, event

from runrig.store import SqlStore


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """Every SQL statement of any store, with its parameters, as it goes to the database."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, given: Any, *_: object) -> None:
        seen.append((" ".join(statement.split()), given))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@contextmanager
def traced() -> Iterator[list[str]]:
    """Every statement that SQLite executes from here on, with its values; SQLAlchemy does not see what a commit writes."""
    seen: list[str] = []

    def trace(driver: Any, *_: object) -> None:
        driver.set_trace_callback(lambda statement: seen.append(" ".join(statement.split())))

    event.listen(Pool, "checkout", trace)
    try:
        yield seen
    finally:
        event.remove(Pool, "checkout", trace)


def plans(store: SqlStore, asked: Iterable[tuple[str, Any]]) -> list[list[str]]:
    """How SQLite would look for the answer of each of *asked*, statements with their parameters."""
    with store.transactions.reading() as connection:
        return [
            [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given)] for sql, given in asked
        ]
