"""Paths of the runrig API v1."""

import re
from datetime import UTC, datetime
from urllib.parse import quote

from runrig.domain.errors import InvalidInput

_ELEMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/[0-9]+")


def path(*parts: str) -> str:
    """Returns ``/api/v1/a/b`` with each part quoted, so that a name cannot change the path. Raises InvalidInput if one is empty, cannot
    be in a path, or names an element of an array where only a workflow can be.
    """
    if "" in parts:
        raise InvalidInput.one("an ID or a name is empty")
    if parts[0] == "workflows" and (element := next(filter(_ELEMENT.fullmatch, parts[1:2]), None)):
        raise InvalidInput.one(f"{element} is an element of an array. Use the whole array: {element.partition('/')[0]}")
    for part in parts:
        if part in (".", "..") or not part.isprintable() or set(part) & set("/\\"):
            raise InvalidInput.one(
                f"{part!r} is not an ID or a name: it cannot contain '/', '\\' or control characters, or be '.' or '..'"
            )
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def tokens(user: str | None, *name: str) -> str:
    """Returns the path of the tokens of *user*, or of one; None: your own."""
    return path("tokens", *name) if user is None else path("users", user, "tokens", *name)


def time(value: datetime | None) -> str | None:
    """Returns a time in RFC 3339. A time without a zone is in the zone of this machine."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
