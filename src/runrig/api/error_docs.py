"""Errors in the OpenAPI document: an example for each status, in the format of the route's API."""

from collections.abc import Iterable, Mapping
from typing import Any

from runrig.domain.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    Refused,
    ServerFault,
    TooMany,
    Unavailable,
)
from runrig.http.problems import OURS, PROBLEM_JSON, problem
from runrig.wire import ErrorAnswer

_EXAMPLES: Mapping[int, tuple[str, str, str, Mapping[str, object]]] = {
    400: (
        "Refused by a rule",
        "train needs 4 GPUs, but pool vision has a quota of 2 GPUs. Request less or submit with priority LOW to borrow",
        Refused.code,
        {"law": "P3", "pool": "vision", "resource": "default/gpu", "asked": 4, "limit": 2},
    ),
    401: (
        "Missing or invalid token",
        "the token is missing or invalid. Send the header 'Authorization: Bearer TOKEN'",
        NotAllowed.code,
        {},
    ),
    403: (
        "Missing role, or wrong Host or Origin",
        "alice cannot change the subpools of pool vision. Required role: vision-admin. An administrator can grant it: "
        "`runrig role grant alice vision-admin`",
        NotAllowed.code,
        {"permission": "change subpools", "roles": ["vision-admin"], "pool": "vision"},
    ),
    404: ("Not found", "unknown pool 'vison' (pools: batch, vision)", NotFound.code, {}),
    409: (
        "Name already in use, or not allowed in the current state",
        "pool vision already exists. To change it, use `runrig pool update vision`",
        Conflict.code,
        {},
    ),
    412: (
        "The resource changed since the ETag in If-Match",
        "pool vision has changed since you read it. Read it again and send its new ETag",
        Conflict.code,
        {},
    ),
    413: ("Too large", "the request is larger than 2 MiB. Send less", InvalidInput.code, {}),
    422: (
        "Invalid input, with all problems",
        "unknown field 'imge'. Did you mean 'image'?",
        InvalidInput.code,
        {
            "problems": [
                {
                    "message": "unknown field 'imge'. Did you mean 'image'?",
                    "path": "workflow.tasks[0].imge",
                    "line": 4,
                    "column": 5,
                }
            ]
        },
    ),
    429: ("Too many failed logins", "too many failed logins. Try again in 6 s", TooMany.code, {"retry_after_s": 6}),
    500: (
        "The server's machine failed",
        "the disk of the database is full, so nothing was stored. Free some space and try again",
        ServerFault.code,
        {},
    ),
    503: (
        "Temporarily unavailable",
        "cannot store revision 8: the database is at 9, because another server wrote to it. Nothing was stored. Try again",
        Unavailable.code,
        {"revision": 8, "stored": 9},
    ),
}


Said = tuple[str, Mapping[str, object]]
"""Message and details of an error."""

DRAINING: Said = (
    "pool team--a is DELETING: it cannot be changed, deleted or created again while 2 workflows with 5 GPUs are running in it",
    {"pool": "team--a", "state": "DELETING", "gpus": 5, "workflows": 2},
)
NO_TOKEN: Said = ("unknown token 'lap' of alice (tokens: laptop)", {})
NO_CREDENTIAL: Said = ("unknown credential 'wandbb' of alice (credentials: wandb)", {})
NO_POOL: Said = ("unknown pool 'visoin' (pools: vision, vision--a)", {})
CLOSED: Said = ("pool vision no longer accepts workflows. Use one of batch", {"pool": "vision"})


def errors_of(path: str, statuses: Iterable[int], said: Mapping[int, Said]) -> dict[int | str, dict[str, Any]]:
    """Documents errors of the route *path*, in the format of its API. *said*: its own examples by status."""
    return {status: _error(status, said.get(status), path.startswith(OURS)) for status in sorted(statuses)}


def _error(status: int, said: Said | None, ours: bool) -> dict[str, Any]:
    description, message, code, details = _EXAMPLES[status]
    message, details = said or (message, details)
    if ours:
        schema = {"$ref": "#/components/schemas/ProblemDetails"}
        content = {PROBLEM_JSON: {"schema": schema, "example": problem(status, message, code, details)}}
        return {"description": description, "content": content}
    example = {"message": message, "error_code": code, "details": dict(details)}
    return {"model": ErrorAnswer, "description": description, "content": {"application/json": {"example": example}}}
