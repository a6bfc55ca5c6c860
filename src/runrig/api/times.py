"""Times in requests, limited to years that both databases can store, with a margin of a second."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def _seconds(at: datetime) -> float:
    """Returns seconds since the epoch. Raises an error that becomes status 422."""
    zoned = at if at.tzinfo else at.replace(tzinfo=UTC)
    if not _EARLIEST <= zoned <= _LATEST:
        raise PydanticCustomError("time_out_of_range", "use a time from the years 1970 to 9999")
    return zoned.timestamp()


if TYPE_CHECKING:
    At = float
else:
    At = Annotated[datetime, AfterValidator(_seconds)]
"""A time in a query, UTC unless it has a zone, as seconds since the epoch."""
