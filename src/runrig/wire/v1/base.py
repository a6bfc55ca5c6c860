"""Shared by all responses of API v1: RFC 3339 times in UTC, and pages."""

from pydantic import PrivateAttr

from runrig.wire.base import Model


class Shown(Model):
    """A response. Clients must expect new fields in later versions."""


class Tagged(Shown):
    """Its ETag is a header of the response; the client stores it here."""

    _etag: str | None = PrivateAttr(default=None)

    @property
    def etag(self) -> str | None:
        """For If-Match; None if the response had none, as in a list."""
        return self._etag
