"""Maps errors to HTTP statuses and back, for servers and clients."""

from collections.abc import Mapping

from runrig.domain.errors import (
    Changed,
    Conflict,
    InvalidInput,
    NoCredential,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    Refused,
    RunrigError,
    ServerFault,
    TooMany,
    Unavailable,
)

# The first match counts, so subclasses come before their base.
STATUSES: Mapping[type[RunrigError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    Changed: 412,
    Conflict: 409,
    Refused: 400,
    NoCredential: 400,
    NotLoggedIn: 401,
    NotAllowed: 403,
    TooMany: 429,
    Unavailable: 503,
    ServerFault: 500,
}


class UnknownParameter(InvalidInput):
    """A query has a parameter that its route does not know.  Ignoring it could answer a different question, so the status is 400."""


def headers_of(error: RunrigError) -> dict[str, str]:
    """The headers that the error's status requires."""
    if "retry_after_s" in error.details:
        return {"retry-after": str(error.details["retry_after_s"])}
    return {"www-authenticate": "Bearer"} if isinstance(error, NotLoggedIn) else {}


def status_of(error: RunrigError) -> int:
    if isinstance(error, UnknownParameter):
        return 400
    return next(status for kind, status in STATUSES.items() if isinstance(error, kind))


def kind_of(status: int, code: object) -> type[RunrigError]:
    """The error class for a response with *status*.

    *code* distinguishes errors with the same status; it comes from the server and can be anything. 400 and 422 are
    treated alike, because the code tells them apart.
    """
    alike = (400, 422) if status in (400, 422) else (status,)
    kinds = [kind for kind, each in STATUSES.items() if each in alike]
    named = [kind for kind in kinds if kind.code == code]
    if len(named or kinds) == 1:
        return (named or kinds)[0]
    return ServerFault if status >= 500 else InvalidInput
