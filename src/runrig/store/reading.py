"""Reads all rows of a table, as at the start of a server.

SQLAlchemy decodes value by value, which takes longer than everything else together. Here each distinct text is decoded
once, and equal values are one object: most of 100,000 pending workflows have the same values.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, DateTime, Select, String, Table, Text, cast, select, type_coerce
from sqlalchemy.types import TypeEngine

from runrig.store.codec import Undecodable, decode, loads
from runrig.store.columns import Encoded, OneOf, UtcDateTime, Words
from runrig.store.rows import KINDS

_TIME = UtcDateTime()


class Memo(dict[Any, Any]):
    """Stored text → its value, decoded on first use."""

    def __init__(self, of: Callable[[Any], Any]) -> None:
        super().__init__({None: None})
        self._of = of

    def __missing__(self, stored: Any) -> Any:
        value = self[stored] = self._of(stored)
        return value


class Reader:
    """Reads the tables of one transaction, sharing equal values across them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._words = Memo(lambda text: text)
        self._memos: dict[Any, Memo] = {}

    def records(self, kind: str, *where: Any) -> tuple[Any, ...]:
        """Returns the rows of *kind* that match *where*, by key in Python's order, since a database's collation may
        differ. Raises Undecodable.
        """
        table = KINDS[kind].table
        rows = self._connection.execute(_stored(table, self._connection.dialect.name).where(*where)).all()
        names = table.columns.keys()
        rows = sorted(rows, key=itemgetter(*(names.index(column.name) for column in table.primary_key)))
        return tuple(
            KINDS[kind].of_columns(
                {
                    column.name: self._decoded(column.type, map(itemgetter(at), rows))
                    for at, column in enumerate(table.columns)
                }
            )
        )

    def _decoded(self, type_: TypeEngine[Any], values: Iterator[Any]) -> Iterable[Any]:
        match type_:
            case Words():
                return map(self._words.__getitem__, values)
            case Encoded():
                return self._once(type_.declared, lambda text: decode(type_.declared, loads(text)), values)
            case OneOf():
                return self._once(type_.members, lambda text: decode(type_.members, text), values)
            case UtcDateTime():
                return self._once(datetime, _seconds, values)
        return values

    def _once(self, of: Any, decoder: Callable[[Any], Any], values: Iterator[Any]) -> Iterable[Any]:
        return map(self._memos.setdefault(of, Memo(decoder)).__getitem__, values)


def _seconds(stored: datetime | str) -> float | None:
    """SQLite stores times as text."""
    try:
        time = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    except ValueError:
        raise Undecodable(f"{stored!r:.80} is not a time") from None
    return _TIME.process_result_value(time, None)


@cache
def _stored(table: Table, dialect: str) -> Select[Any]:
    """Selects all columns as stored; nested values as text."""
    return select(*(as_stored(column, dialect).label(column.name) for column in table.columns))


def as_stored(column: Any, dialect: str) -> Any:
    """Returns *column* as stored: nested values and words as text."""
    match column.type:
        case Encoded():
            return type_coerce(column, String) if dialect == "sqlite" else cast(column, Text)
        case OneOf() | Words():
            return type_coerce(column, String)
        case UtcDateTime():
            return type_coerce(column, String if dialect == "sqlite" else DateTime(timezone=True))
    return column
