"""Times that questions name: of the years that both databases can store, a second away from their ends."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def _storable(at: datetime) -> datetime:
    """*at* with its zone: UTC if it has none.  Raises what becomes status 422."""
    zoned = at if at.tzinfo else at.replace(tzinfo=UTC)
    if not _EARLIEST <= zoned <= _LATEST:
        raise PydanticCustomError("time_out_of_range", "use a time from the years 1970 to 9999")
    return zoned


At = Annotated[datetime, AfterValidator(_storable)]
"""A time in a query, UTC unless it has a zone."""
