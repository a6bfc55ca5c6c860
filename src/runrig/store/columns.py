"""Column types for domain values, so that rows and records have equal fields and values."""

import enum
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, String, Text
from sqlalchemy.types import TypeDecorator

from runrig.store.codec import coder, decode, value_of
from runrig.store.text import checked, checked_dumps

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LONGEST_ENUM = 32

WHOLE = Integer().with_variant(BigInteger(), "postgresql")
"""64 bits in both databases."""


class Words(TypeDecorator[str]):
    """Text sorted by code points, as in Python and SQLite, whatever the locale of the database."""

    impl: Any = String().with_variant(String(collation="C"), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else checked(value)


class Prose(Words):
    """Long text."""

    impl = Text().with_variant(Text(collation="C"), "postgresql")
    cache_ok = True


def _moment(value: float) -> datetime:
    return _EPOCH + timedelta(microseconds=round(value * 1_000_000))


class UtcDateTime(TypeDecorator[float]):
    """Seconds since the epoch in whole microseconds ⇄ a time in UTC.

    Reads back equal until the year 2106; after that a float is too coarse for microseconds.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else _moment(value)

    @staticmethod
    @lru_cache(10_000)  # Most times within a commit are equal.
    def text(value: float) -> str:
        """Returns the text that SQLite stores, and that PostgreSQL reads in a UTC session."""
        return _moment(value).replace(tzinfo=None).isoformat(" ", "microseconds")

    def process_result_value(self, value: datetime | None, dialect: Dialect | None) -> float | None:  # noqa: ARG002
        if value is None:
            return None
        # SQLite stores no zone, but all times are UTC.
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND / 1_000_000


class Encoded(TypeDecorator[Any]):
    """A nested value of type *declared*, as JSON (`codec`). Not JSONB, which reorders keys and takes twice as long to
    write.

    *alike*: few distinct values, so their texts are cached; only for hashable types.
    """

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, declared: Any, *, alike: bool = False) -> None:
        super().__init__()
        self.declared = declared
        self.alike = alike
        self.plain = coder(declared)[0]
        self.text = lru_cache(1_000)(self._text) if alike else self._text

    def _text(self, value: Any) -> str:
        return checked_dumps(self.plain(value))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else self.plain(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else decode(self.declared, value)


def plain_json() -> JSON:
    """Returns plain JSON, whose type another column determines."""
    return JSON(none_as_null=True)


class OneOf(TypeDecorator[Any]):
    """A member of the enum *members*, stored as text, so that a new member needs no migration. Also compares with plain text."""

    impl = String(LONGEST_ENUM).with_variant(String(LONGEST_ENUM, collation="C"), "postgresql")
    cache_ok = True

    def __init__(self, members: type[enum.Enum]) -> None:
        super().__init__()
        self.members = members

    def process_bind_param(self, value: enum.Enum | str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else self.text(value)

    @staticmethod
    def text(value: enum.Enum | str) -> str:
        return checked(value) if type(value) is str else value_of(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else decode(self.members, value)
