"""Which HTTP status each kind of error has, and which kind a status is; for servers and for clients."""

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

# The first match counts: special before general.
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


def status_of(error: RunrigError) -> int:
    return next(status for kind, status in STATUSES.items() if isinstance(error, kind))


def kind_of(status: int, code: object) -> type[RunrigError]:
    """What an answer with *status* stands for; *code* tells kinds of one status apart, and is of anyone's making.

    400 and 422 say the same here: the request cannot be carried out, and the code says why.
    """
    alike = (400, 422) if status in (400, 422) else (status,)
    kinds = [kind for kind, each in STATUSES.items() if each in alike]
    named = [kind for kind in kinds if kind.code == code]
    if len(named or kinds) == 1:
        return (named or kinds)[0]
    return ServerFault if status >= 500 else InvalidInput
