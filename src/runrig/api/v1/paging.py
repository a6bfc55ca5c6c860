"""Paging: `limit` and `cursor` in the request, `items` and `next_cursor` in the response.

A cursor is the position of the last item in the list's order. So no page repeats or skips an item that exists
throughout, whatever is created or deleted in the meantime.
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

from runrig.domain.errors import InvalidInput

LONGEST_PAGE = 1000
USUAL_PAGE = 100
_LARGEST = 2**62
_LATEST_S = 253_402_300_799.0
"""The end of the year 9999, the last time that both databases can store."""
_LONGEST_TEXT = 300

Limit = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="Maximum number of items")]
Cursor = Annotated[str | None, Query(max_length=2000, description="`next_cursor` of the previous page")]

Place = tuple[Any, ...]
T = TypeVar("T")


def cursor_of(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def place_of(cursor: str | None, *kinds: type) -> Place | None:
    """Returns the position in *cursor*, with parts of *kinds*; None without a cursor. Raises InvalidInput."""
    if cursor is None:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != len(kinds) or not all(map(_is_one, found, kinds)):
        raise InvalidInput.one(
            f"cursor {cursor!r:.80} does not belong to this list. Send next_cursor exactly as received", "cursor"
        )
    return tuple(found)


def _is_one(value: object, kind: type) -> bool:
    match value:
        case bool():
            return False
        case int():
            return kind is int and abs(value) <= _LARGEST
        case float():
            return kind is float and 0 <= value <= _LATEST_S
        case str():
            return kind is str and len(value) <= _LONGEST_TEXT and value.isprintable()
    return False


def cut(
    found: Sequence[T], place: Callable[[T], Place], limit: int, after: Place | None
) -> tuple[Sequence[T], str | None]:
    """Returns (the page of *found* after *after*, the cursor of the next one). *found* is in the order of *place*."""
    rest = found if after is None else [each for each in found if place(each) > after]
    page = rest[:limit]
    return page, cursor_of(place(page[-1])) if len(rest) > limit else None
