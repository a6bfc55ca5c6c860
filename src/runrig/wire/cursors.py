"""Cursors of lists: the place of an item in the list's order, as text."""

import base64
import json
from typing import Any

from runrig.domain.errors import InvalidInput

_LARGEST = 2**62
_LATEST_S = 253_402_300_799.0
"""The end of the year 9999, the last time that both databases can store."""
_LONGEST_TEXT = 300

Place = tuple[Any, ...]


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
