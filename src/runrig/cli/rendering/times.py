"""Times and durations for users. Answers have naive UTC; users see local time."""

from datetime import UTC, datetime, timedelta

from runrig.domain import spans


def moment(text: str | None) -> datetime | None:
    """Returns *text* of an answer as an instant; None if it is empty or not a time."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
    except ValueError:
        return None


def local(text: str | None) -> str:
    """Returns ``2026-01-31 13:00:00`` in local time; ``-`` without a time."""
    at = moment(text)
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def span(seconds: float | None) -> str:
    """``3m05s``; ``-`` for None."""
    return "-" if seconds is None else spans.span(seconds)


def as_of(submitted: str, total_s: float) -> datetime:
    """Returns the time to which a workflow's answer refers, by the server's clock: now, or its end."""
    at = moment(submitted)
    assert at is not None
    return at + timedelta(seconds=total_s)


def between(start: str | None, end: str | None, *, now: datetime) -> float | None:
    """Returns seconds from *start* to *end*, or to *now* before the end; None if it has not started."""
    first, last = moment(start), moment(end) or now
    return (last - first).total_seconds() if first else None
