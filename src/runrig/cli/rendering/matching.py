"""Lines of output that match a pattern, with lines around them."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runrig.domain.errors import InvalidInput

Record = Mapping[str, Any]

GAP = "--"
"""Printed between matches that are not next to each other, as grep does."""


def pattern_of(grep: str) -> re.Pattern[str]:
    """Returns the pattern of an option ``--grep``. Raises InvalidInput."""
    try:
        return re.compile(grep)
    except re.error as error:
        raise InvalidInput.one(f"--grep {grep} is not a regular expression: {error}") from None


def matching(records: Iterable[Record], pattern: re.Pattern[str], around: int) -> Iterator[Record | None]:
    """Yields the records whose text has *pattern*, with up to *around* lines of the same task before and after each.

    None stands for a gap, and only if *around* is more than 0. Yields a match as soon as it comes.
    """
    before: dict[tuple[str, int], deque[Record]] = {}
    after: dict[tuple[str, int], int] = {}
    left_out = started = False
    for each in records:
        key = each["task"], each["attempt"]
        waiting = before.setdefault(key, deque(maxlen=around))
        if pattern.search(each["text"]):
            if around and started and left_out and not after.get(key):
                yield None
            yield from waiting
            yield each
            waiting.clear()
            after[key], started, left_out = around, True, False
        elif after.get(key):
            yield each
            after[key] -= 1
        else:
            left_out = left_out or len(waiting) == around
            waiting.append(each)
