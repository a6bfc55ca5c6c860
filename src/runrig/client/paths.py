"""Paths of runrig API v1."""

from datetime import UTC, datetime
from urllib.parse import quote


def path(*parts: str) -> str:
    """``/api/v1/a/b`` with each part quoted, so that a name cannot change the path."""
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def time(value: datetime | None) -> str | None:
    """RFC 3339.  A time without a zone is one of this machine."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
