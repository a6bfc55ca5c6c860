"""Shared by all answers of our own door: times of RFC 3339 in UTC, and pages."""

from datetime import UTC, datetime
from typing import overload

from runrig.wire.base import Model


class Shown(Model):
    """Goes out.  Clients must expect further fields in later versions."""


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
