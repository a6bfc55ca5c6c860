"""Reads all rows of a table, as at the start of a server.

SQLAlchemy decodes value by value, which takes longer than everything else together.  Here each text is decoded once, however many
rows have it, and equal values are one object: of 100,000 workflows that wait most rows say the same.
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
    """What is stored → its value, decoded when it is seen for the first time."""

    def __init__(self, of: Callable[[Any], Any]) -> None:
        super().__init__({None: None})
        self._of = of

    def __missing__(self, stored: Any) -> Any:
        value = self[stored] = self._of(stored)
        return value


class Reader:
    """Reads the tables of one transaction; what they have in common is shared among all of them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._words = Memo(lambda text: text)
        self._memos: dict[Any, Memo] = {}

    def records(self, kind: str, *where: Any) -> tuple[Any, ...]:
        """The rows of *kind* for which *where* holds, by key in Python's order: a database's collation may differ.  Raises Undecodable."""
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
    """SQLite keeps text."""
    try:
        time = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    except ValueError:
        raise Undecodable(f"{stored!r:.80} is not a time") from None
    return _TIME.process_result_value(time, None)


@cache
def _stored(table: Table, dialect: str) -> Select[Any]:
    """All columns, as they are stored; nested values as text."""
    return select(*(as_stored(column, dialect).label(column.name) for column in table.columns))


def as_stored(column: Any, dialect: str) -> Any:
    """*column* as its database keeps it: nested values and words as text."""
    match column.type:
        case Encoded():
            return type_coerce(column, String) if dialect == "sqlite" else cast(column, Text)
        case OneOf() | Words():
            return type_coerce(column, String)
        case UtcDateTime():
            return type_coerce(column, String if dialect == "sqlite" else DateTime(timezone=True))
    return column
