"""What a server answered instead of what was asked for, as an error."""

import json
from collections.abc import Mapping
from typing import Any

from runrig.domain.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    Problem,
    Refused,
    RunrigError,
    ServerFault,
    Unavailable,
)

_CLASSES = (Conflict, InvalidInput, NotAllowed, NotFound, Refused, ServerFault, Unavailable)
_EXIT_BY_CODE = {error.code: error.exit_code for error in _CLASSES}
_ERROR_BY_STATUS: Mapping[int, type[RunrigError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    429: Unavailable,
    503: Unavailable,
}
_STATUS_DECIDES = (401, 403, 429, 503)


class ServerSaid(RunrigError):
    """An error that the server answered.  *problems*: everything wrong with the file that was sent, if one was."""

    def __init__(
        self, message: str, details: Mapping[str, object], *, code: str, exit_code: int, problems: tuple[Problem, ...]
    ) -> None:
        super().__init__(message, details)
        self.code = code
        self.exit_code = exit_code
        self.problems = problems


def server_said(status: int, body: str) -> RunrigError:
    """The error in an answer with *status*, which is not a success, in the words of either door."""
    answer = _parsed(body)
    message = answer.get("message", answer.get("detail"))
    if not isinstance(message, str) or not message:
        message = f"the server answered with status {status}" + (f": {body.strip()[:500]}" if body.strip() else "")
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    if "problems" in answer:
        details = {**details, "problems": answer["problems"]}
    fallback = _ERROR_BY_STATUS.get(status, ServerFault if status >= 500 else InvalidInput)
    code = answer.get("error_code", answer.get("code"))
    code = code if isinstance(code, str) and code else fallback.code
    by_status = status in _STATUS_DECIDES or status >= 500
    exit_code = fallback.exit_code if by_status else _EXIT_BY_CODE.get(code, fallback.exit_code)
    return ServerSaid(message, details, code=code, exit_code=exit_code, problems=_problems(details))


def _parsed(body: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _problems(details: Mapping[str, Any]) -> tuple[Problem, ...]:
    found = details.get("problems")
    return tuple(
        Problem(str(each.get("message", "")), str(each.get("path") or ""), each.get("line"), each.get("column"))
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, dict)
    )
