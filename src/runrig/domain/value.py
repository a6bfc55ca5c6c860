"""Shown values: frozen dataclasses that are identical in the server, in JSON, in the OpenAPI document and in the Python client.

This module only marks them. `runrig.wire.json` reads the marks, so that `domain` needs no framework.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar, Generic, TypeVar, cast, get_args, overload


class Shown:
    """Base class of the values in API responses.

    The docstring and the fields, in order, are the schema; every field is always present.
    *UNTOLD*: names of fields that never leave the server. They come last or are keyword-only, and have defaults.
    """

    __slots__ = ()
    UNTOLD: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, slots=True)
class Tagged(Shown):
    """*etag*: the value of the ETag header, for use in If-Match; None if there was none, as in a list."""

    UNTOLD: ClassVar[tuple[str, ...]] = ("etag",)

    etag: str | None = field(default=None, kw_only=True, compare=False)


T = TypeVar("T", bound=Shown)


@dataclass(frozen=True, slots=True)
class Page(Shown, Generic[T]):
    """Base class of pages. The docstring of a subclass names the items and their order; it needs no example.

    *next_cursor*: the `cursor` of the next page; None on the last one.
    """

    next_cursor: str | None
    items: tuple[T, ...]


class Word(enum.StrEnum):
    """An enumeration of strings. Responses document it as a string, because later servers may add values; requests accept only these."""

    def __repr__(self) -> str:
        """As of the string: the Python client gives its users words, in lists too."""
        return repr(self.value)


class Amounts(Mapping[str, int]):
    """Name → amount, in insertion order. Hashable; equal to a dictionary with the same amounts."""

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        self._amounts = dict(amounts)

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __hash__(self) -> int:
        return hash(frozenset(self._amounts.items()))

    def __repr__(self) -> str:
        return f"Amounts({self._amounts!r})"


NO_AMOUNTS = Amounts()

S = TypeVar("S", bound=Shown)

_EXAMPLES: dict[type[Shown], Shown] = {}


def shown_as(value: S) -> S:
    """Makes *value* the example of its class in the OpenAPI document, and returns it."""
    _EXAMPLES[type(value)] = value
    return value


def example(kind: type[S]) -> S:
    """The example of *kind*; that of a page has one item. Raises KeyError if there is none."""
    if issubclass(kind, Page) and kind not in _EXAMPLES:
        (item,) = get_args(vars(kind)["__orig_bases__"][0])
        return cast(S, kind(None, (example(item),)))
    return cast(S, _EXAMPLES[kind])


@overload
def at(seconds: float) -> datetime: ...
@overload
def at(seconds: float | None) -> datetime | None: ...
def at(seconds: float | None) -> datetime | None:
    """Converts seconds since the epoch to a time in UTC, which JSON shows with a Z."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def utc(moment: datetime) -> str:
    """``2026-01-31 12:00:00 UTC``."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
