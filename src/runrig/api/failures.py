"""Turns errors into HTTP answers: one shape, a fitting status, no stack trace; and documents them in OpenAPI."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from runrig.domain.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    Problem,
    Refused,
    RunrigError,
    ServerFault,
    TooMany,
    Unavailable,
)
from runrig.service.runtime import logs
from runrig.wire import ErrorAnswer, ProblemAnswer

# The first match counts: special before general.
STATUSES: Mapping[type[RunrigError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    Conflict: 409,
    Refused: 400,
    NotLoggedIn: 401,
    NotAllowed: 403,
    TooMany: 429,
    Unavailable: 503,
    ServerFault: 500,
}

MOST_PROBLEMS = 100
"""Problems listed in one answer: nobody reads more, and a body full of mistakes must not cost much."""

_log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Installs the handlers that answer whatever a route raises."""

    @app.exception_handler(RunrigError)
    async def _ours(_: Request, error: RunrigError) -> JSONResponse:
        status = status_of(error)
        if status >= 500 and "retry_after_s" not in error.details:
            _log.error("%s", logs.line("request_failed", error=error.message), exc_info=error)
        refused = answer(status, error.message, error.code, details_of(error))
        refused.headers.update(headers_of(error))
        return refused

    @app.exception_handler(RequestValidationError)
    async def _shape(_: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()
        problems = [_of_pydantic(each) for each in found[:MOST_PROBLEMS]]
        if len(found) > MOST_PROBLEMS:
            problems.append(Problem(f"{len(found) - MOST_PROBLEMS} more problems like these"))
        return answer(
            422,
            "; ".join(each.message for each in problems),
            InvalidInput.code,
            {"problems": [_problem(each) for each in problems]},
        )

    @app.exception_handler(HTTPException)
    async def _framework(request: Request, error: HTTPException) -> JSONResponse:
        path, method = request.url.path, request.method
        if error.status_code == 404:
            return answer(404, f"there is no {path} here: /openapi.json lists what there is", NotFound.code, {})
        if error.status_code == 405:
            return answer(
                405, f"{path} does not know {method}: /openapi.json lists what it does", InvalidInput.code, {}
            )
        if error.status_code == 400:  # the framework could not even begin to read it
            problem = Problem("the body is not JSON in UTF-8, or is nested too deeply")
            return answer(422, problem.message, InvalidInput.code, {"problems": [_problem(problem)]})
        return answer(error.status_code, str(error.detail), InvalidInput.code, {})

    @app.exception_handler(Exception)
    async def _bug(_: Request, error: Exception) -> JSONResponse:
        _log.error("%s", logs.line("request_crashed"), exc_info=error)
        message = f"the server made a mistake ({type(error).__name__}): its log has more, please report it"
        return answer(500, message, ServerFault.code, {})


def details_of(error: RunrigError) -> dict[str, object]:
    if isinstance(error, InvalidInput):
        return {"problems": [_problem(each) for each in error.problems]}
    return dict(error.details)


def status_of(error: RunrigError) -> int:
    return next(status for kind, status in STATUSES.items() if isinstance(error, kind))


def headers_of(error: RunrigError) -> dict[str, str]:
    """The headers that the error's status requires."""
    if "retry_after_s" in error.details:
        return {"retry-after": str(error.details["retry_after_s"])}
    return {"www-authenticate": "Bearer"} if isinstance(error, NotLoggedIn) else {}


def answer(status: int, message: str, code: str, details: Mapping[str, object]) -> JSONResponse:
    request = logs.current()
    if status >= 500 and request:  # so that people who ask for help can point to the log lines
        details = {**details, "request_id": request}
    body = ErrorAnswer(message=message, error_code=code, details=dict(details))
    return JSONResponse(body.model_dump(mode="json"), status, {"x-request-id": request} if request else None)


def _problem(problem: Problem) -> dict[str, Any]:
    return ProblemAnswer(
        message=problem.message, path=problem.path, line=problem.line, column=problem.column
    ).model_dump()


def _of_pydantic(error: Mapping[str, Any]) -> Problem:
    """A problem that pydantic found, with its place and value in the sentence."""
    path = ".".join(str(part) for part in error["loc"][1:] if not str(part).startswith(("function-", "dict[")))
    where = path or str(error["loc"][0])
    match error["type"]:
        case "extra_forbidden":
            return Problem(f"unknown field {where!r}: leave it out", path)
        case "missing":
            return Problem(f"{where} is missing", path)
        case "json_invalid":
            return Problem("the body is not JSON", path)
    shown = repr(error.get("input"))
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return Problem(f"{where}: {shown} is not right: {error['msg']}", path)


# ---------------------------------------------------------------- in the OpenAPI document

_EXAMPLES: Mapping[int, tuple[str, str, str, Mapping[str, object]]] = {
    400: (
        "Refused by a rule",
        "train/main-group asks 4 of default/gpu in one gang; pool vision has 2 as its quota: "
        "ask for less, or submit with priority LOW",
        Refused.code,
        {"law": "P3", "pool": "vision", "resource": "default/gpu", "asked": 4, "limit": 2},
    ),
    401: (
        "No token, or a wrong one",
        "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'",
        NotAllowed.code,
        {},
    ),
    403: (
        "No role for it; or another Host or Origin",
        "alice may not change the subpools of pool vision: that needs the role vision-admin; an admin gives it with "
        "`runrig role grant alice vision-admin`",
        NotAllowed.code,
        {"permission": "change subpools", "roles": ["vision-admin"], "pool": "vision"},
    ),
    404: ("Not there", "there is no pool 'vison': there are batch, vision", NotFound.code, {}),
    409: (
        "The name or the state forbids it",
        "pool vision is ACTIVE: the name is taken; `runrig pool update vision` changes it",
        Conflict.code,
        {},
    ),
    413: ("Too large", "the request has more than 2 MiB: send less", InvalidInput.code, {}),
    422: (
        "Unreadable: every problem at once",
        "unknown field 'imge': did you mean 'image'?",
        InvalidInput.code,
        {
            "problems": [
                {
                    "message": "unknown field 'imge': did you mean 'image'?",
                    "path": "workflow.tasks[0].imge",
                    "line": 4,
                    "column": 5,
                }
            ]
        },
    ),
    429: ("Too many failed logins", "too many failed logins: try again in 6 s", TooMany.code, {"retry_after_s": 6}),
    500: (
        "The machine under the server failed",
        "the disk of the database is full: free some room and try again; nothing of this was stored",
        ServerFault.code,
        {},
    ),
    503: (
        "Not now",
        "revision 8 was to be stored, but the database is at 9: another server wrote to it; nothing was stored, try again",
        Unavailable.code,
        {"revision": 8, "stored": 9},
    ),
}


Said = tuple[str, Mapping[str, object]]
"""Message and details of an error."""


def example(status: int, said: Said | None = None) -> dict[str, object]:
    """The body of an error with *status*."""
    _, message, code, details = _EXAMPLES[status]
    message, details = said or (message, details)
    return {"message": message, "error_code": code, "details": dict(details)}


def documented(*statuses: int, said: Mapping[int, Said] | None = None) -> dict[int | str, dict[str, Any]]:
    """Documentation of errors for ``responses=`` of a route.  *said*: its own examples by status."""
    return {
        status: {
            "model": ErrorAnswer,
            "description": _EXAMPLES[status][0],
            "content": {"application/json": {"example": example(status, (said or {}).get(status))}},
        }
        for status in sorted(statuses)
    }
