"""Shared by all answers of our own door: times of RFC 3339 in UTC, and pages."""

from datetime import UTC, datetime
from typing import overload

from pydantic import PrivateAttr

from runrig.wire.base import Model


class Shown(Model):
    """Goes out.  Clients must expect further fields in later versions."""


class Tagged(Shown):
    """Its ETag is a header of the answer; a client keeps it here."""

    _etag: str | None = PrivateAttr(default=None)

    @property
    def etag(self) -> str | None:
        """For If-Match; None if the answer had none, as in a list."""
        return self._etag


class Page(Shown):
    """*next_cursor*: as `cursor` it asks for what follows; null at the end."""

    next_cursor: str | None


@overload
def at(seconds: float) -> datetime: ...
@overload
def at(seconds: None) -> None: ...
@overload
def at(seconds: float | None) -> datetime | None: ...
def at(seconds: float | None) -> datetime | None:
    """Seconds since the epoch as a time that is written with a Z."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
