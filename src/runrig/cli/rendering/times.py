"""Times and durations for people.  Answers carry naive UTC; people read their own clock."""

from datetime import UTC, datetime, timedelta

from runrig.domain import spans


def moment(text: str | None) -> datetime | None:
    """*text* of an answer as an instant; None if it is empty or not a time."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
    except ValueError:
        return None


def local(text: str | None) -> str:
    """``2026-01-31 13:00:00`` in the zone of this machine; ``-`` for no time."""
    at = moment(text)
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def utc_text(text: str) -> str:
    """A time as a person wrote it (in their own zone unless it names another), as naive UTC for the server.  Raises ValueError."""
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None).isoformat()


def span(seconds: float | None) -> str:
    """``3m05s``; ``-`` for None."""
    return "-" if seconds is None else spans.span(seconds)


def as_of(submitted: str, queued_s: float, duration_s: float | None) -> datetime:
    """When a workflow was as its answer says, by the clock of the server: now, or its end."""
    at = moment(submitted)
    assert at is not None
    return at + timedelta(seconds=queued_s + (duration_s or 0.0))


def between(start: str | None, end: str | None, *, now: datetime) -> float | None:
    """Seconds from *start* to *end*, or to *now* while there is no end; None if it has not started."""
    first, last = moment(start), moment(end) or now
    return (last - first).total_seconds() if first else None
