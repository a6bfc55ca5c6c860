"""Paths of the runrig API v1."""

from datetime import UTC, datetime
from urllib.parse import quote

from runrig.domain.errors import InvalidInput


def path(*parts: str) -> str:
    """Returns ``/api/v1/a/b`` with each part quoted, so that a name cannot change the path. Raises InvalidInput if one is empty."""
    if "" in parts:
        raise InvalidInput.one("an ID or a name is empty")
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def time(value: datetime | None) -> str | None:
    """Returns a time in RFC 3339. A time without a zone is in the zone of this machine."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
