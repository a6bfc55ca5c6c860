"""Paging: `limit` and `cursor` in the request, `items` and `next_cursor` in the response.

A cursor is the position of the last item in the list's order. So no page repeats or skips an item that exists
throughout, whatever is created or deleted in the meantime.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from runrig.wire.cursors import Place as Place
from runrig.wire.cursors import cursor_of as cursor_of
from runrig.wire.cursors import place_of as place_of

LONGEST_PAGE = 1000
USUAL_PAGE = 100

Limit = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="Maximum number of items")]
Cursor = Annotated[str | None, Query(max_length=2000, description="`next_cursor` of the previous page")]

T = TypeVar("T")


def cut(
    found: Sequence[T], place: Callable[[T], Place], limit: int, cursor: str | None, *types: type
) -> tuple[Sequence[T], str | None]:
    """Returns (the page of *found* after *cursor*, the cursor of the next one). *found* is in the order of *place*, which
    has *types*.
    """
    after = place_of(cursor, *types)
    rest = found if after is None else [each for each in found if place(each) > after]
    page = rest[:limit]
    return page, cursor_of(place(page[-1])) if len(rest) > limit else None
