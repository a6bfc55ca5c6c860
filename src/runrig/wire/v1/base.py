"""Shared by all answers of our own door: times of RFC 3339 in UTC, and pages."""

from pydantic import PrivateAttr

from runrig.domain.value import at as at
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
