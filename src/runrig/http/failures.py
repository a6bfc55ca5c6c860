"""Turns exceptions into error responses with one format, a matching status and no stack trace."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from runrig.domain.errors import InvalidInput, NotFound, NotLoggedIn, Problem, RunrigError, ServerFault
from runrig.domain.quantities import counted
from runrig.domain.statuses import headers_of, status_of
from runrig.http.problems import written
from runrig.service.runtime import logs

MOST_PROBLEMS = 100
"""Maximum problems in one response. It would not help to see more, and a body full of mistakes must not cost much."""

SECRET = ("api/credentials", "api/v1/credentials")
"""Prefixes of paths whose bodies never appear in a response."""

_SHOULD_BE = "Input should be "
_NO_OBJECT = ("dataclass_type", "model_attributes_type", "model_type")

_log = logging.getLogger(__name__)


def install(app: FastAPI, why_absent: Callable[[str, str], str | None]) -> None:
    """Installs the exception handlers for all routes. *why_absent*: says why there is no such (method, path), if clients know it."""

    @app.exception_handler(RunrigError)
    async def _ours(request: Request, error: RunrigError) -> Response:
        status = status_of(error)
        if status >= 500 and "retry_after_s" not in error.details:
            logs.failure(_log, "request_failed", error)
        refused = answer(request, status, error.message, error.code, details_of(error))
        refused.headers.update(headers_of(error))
        if isinstance(error, NotLoggedIn):  # As the guard does, which refuses most such requests first.
            refused.headers["connection"] = "close"
        return refused

    @app.exception_handler(RequestValidationError)
    async def _shape(request: Request, error: RequestValidationError) -> Response:
        found, secret = error.errors(), request.url.path.lstrip("/").startswith(SECRET)
        problems = _in_one([_of_pydantic(each, secret=secret) for each in found[:MOST_PROBLEMS]])
        if len(found) > MOST_PROBLEMS:
            problems.append(Problem(counted(len(found) - MOST_PROBLEMS, "more problem")))
        return await _ours(request, InvalidInput(tuple(problems)))

    @app.exception_handler(HTTPException)
    async def _framework(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, RunrigError):  # Raised while the framework read the body.
            return await _ours(request, error.__cause__)
        path, method = request.url.path, request.method
        if error.status_code in (404, 405) and (why := why_absent(method, path)):
            return answer(request, error.status_code, why, NotFound.code, {})
        if error.status_code == 404:
            return answer(request, 404, f"unknown path {path}. See /openapi.json", NotFound.code, {})
        if error.status_code == 405:
            return _unsupported(request)
        if error.status_code == 400:  # The framework could not parse it.
            return await _ours(request, InvalidInput.one("the body is not JSON in UTF-8, or is nested too deeply"))
        return answer(request, error.status_code, str(error.detail), InvalidInput.code, {})

    @app.exception_handler(Exception)
    async def _bug(request: Request, error: Exception) -> Response:
        _log.error("%s", logs.line("request_crashed"), exc_info=error)
        message = f"internal server error ({type(error).__name__}). Please report it with the lines in the server's log"
        return answer(request, 500, message, ServerFault.code, {})


def _unsupported(request: Request) -> Response:
    """Names what the path supports, as 405 must."""
    routes = [each for each in request.app.routes if isinstance(each, APIRoute)]
    found = {
        method for each in routes if each.matches(request.scope)[0] is Match.PARTIAL for method in each.methods or ()
    }
    allowed = ", ".join(sorted(found | ({"HEAD"} if "GET" in found else set())))
    message = f"{request.url.path} does not support {request.method}, only {allowed}. See /openapi.json"
    refused = answer(request, 405, message, InvalidInput.code, {})
    refused.headers["allow"] = allowed
    return refused


def details_of(error: RunrigError) -> dict[str, object]:
    if isinstance(error, InvalidInput):
        return {"problems": [asdict(each) for each in error.problems]}
    return dict(error.details)


def answer(request: Request, status: int, message: str, code: str, details: Mapping[str, object]) -> Response:
    id = logs.current()
    if status >= 500 and id:  # The user can report it, so that an administrator finds the log lines.
        details = {**details, "request_id": id}
    body, media_type = written(request.url.path, status, message, code, details)
    return Response(body, status, {"x-request-id": id} if id else None, media_type=media_type)


def _in_one(problems: list[Problem]) -> list[Problem]:
    """Joins what each kind of value that a field may have says about the same one."""
    found: dict[str, Problem] = {}
    for each in problems:
        first = found.get(each.path)
        start, kind, other = each.message.partition(_SHOULD_BE)
        if first is None or not (kind and first.message.startswith(start + kind)):
            found[each.path if first is None else each.message] = each
        elif not first.message.endswith(other):
            found[each.path] = replace(first, message=f"{first.message}, or {other}")
    return list(found.values())


def _of_pydantic(error: Mapping[str, Any], *, secret: bool) -> Problem:
    """Returns a problem found by pydantic, with its path and value in the message; *secret*: without the value."""
    path = ".".join(str(part) for part in error["loc"][1:] if not str(part).startswith(("function-", "dict[")))
    path = path.removesuffix(".str")  # One of the kinds of value that the field may have, not a field.
    where = path or str(error["loc"][0])
    match error["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return Problem(f"unknown field {where!r}. Omit it", path)
        case "missing":
            return Problem(f"{where} is missing", path)
        case "json_invalid":
            return Problem("the body is not JSON", path)
    if where == "body" and isinstance(error.get("input"), bytes):
        return Problem("the body is not JSON: its Content-Type must be application/json")
    if secret:
        return Problem(f"{where} is invalid: {error['msg']}", path)
    shown = repr(error.get("input"))
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    why = "Input should be an object" if error["type"] in _NO_OBJECT else error["msg"]
    return Problem(f"{where}: invalid value {shown}: {why}", path)
