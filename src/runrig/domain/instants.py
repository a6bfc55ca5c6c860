"""Times as people type them."""

import re
from datetime import UTC, datetime, time, timedelta

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
"""Seconds, by unit letter."""
_SPAN = re.compile("([0-9]{1,9})([smhdw])")


def seconds_of(text: str) -> int | None:
    """Returns ``2h`` in seconds; None if *text* is not a number and a unit."""
    found = _SPAN.fullmatch(text)
    return int(found[1]) * UNITS_S[found[2]] if found else None


def instant(text: str, now: datetime) -> datetime:
    """Returns a time such as ``2026-01-31T12:00``, in local time unless it has a zone or *now* is in UTC.

    Also ``2h`` for two hours before *now*, ``now``, and ``today`` and ``yesterday`` for their beginnings. Raises
    ValueError, also for times that no calendar has.
    """
    text = text.strip().lower()
    try:
        if (ago_s := seconds_of(text)) is not None:
            return now - timedelta(seconds=ago_s)
    except OverflowError:
        raise ValueError(text) from None
    if text == "now":
        return now
    if text in ("today", "yesterday"):
        day = now.date() - timedelta(days=text == "yesterday")
        return _placed(datetime.combine(day, time.min), now)
    return _placed(datetime.fromisoformat(text.upper()), now)


def _placed(at: datetime, now: datetime) -> datetime:
    """Puts *at* into UTC if *now* is; else into local time, by the clock of that day, because of daylight saving time."""
    if at.tzinfo is not None:
        return at
    return at.replace(tzinfo=UTC) if now.tzinfo is UTC else at.astimezone()
