"""The body of an error: `{message, error_code, details}` in the osmo API, problem details (RFC 9457) in API v1."""

import json
from collections.abc import Mapping

from pydantic_core import to_jsonable_python

from runrig.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound, Refused, ServerFault, Unavailable

JSON, PROBLEM_JSON = "application/json", "application/problem+json"
OURS = "/api/v1/"
"""Prefix of paths of API v1."""
TYPE = "urn:runrig:problem:"
"""Prefix of the type of a problem; its code in small letters follows."""

TITLES: Mapping[str, str] = {
    InvalidInput.code: "Invalid request",
    NotFound.code: "Not found",
    Conflict.code: "Name already in use, or not allowed in the current state",
    Refused.code: "Refused by a rule",
    NotAllowed.code: "Not allowed",
    Unavailable.code: "Temporarily unavailable",
    ServerFault.code: "Internal server error",
}


def written(path: str, status: int, message: str, code: str, details: Mapping[str, object]) -> tuple[bytes, str]:
    """Returns (body, content type) of an error for a request to *path*."""
    if f"/{path.lstrip('/')}/".startswith(OURS):
        return _json(problem(status, message, code, details)), PROBLEM_JSON
    return _json({"message": message, "error_code": code, "details": dict(details)}), JSON


def _json(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, default=to_jsonable_python).encode()


def problem(status: int, message: str, code: str, details: Mapping[str, object]) -> dict[str, object]:
    """Returns `wire.v1.ProblemDetails` as a mapping, without empty *details* and unknown lines and columns."""
    found: dict[str, object] = {
        "type": TYPE + code.lower(),
        "title": TITLES.get(code, code),
        "status": status,
        "detail": message,
        "code": code,
    }
    numbers = {name: value for name, value in details.items() if name != "problems"}
    if numbers:
        found["details"] = numbers
    listed = details.get("problems")
    if isinstance(listed, list):
        found["problems"] = [{name: value for name, value in each.items() if value is not None} for each in listed]
    return found
