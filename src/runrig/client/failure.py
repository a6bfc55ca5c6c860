"""Turns error responses of a server into the errors that it raised."""

import json
from collections.abc import Mapping
from typing import Any

from runrig.domain.errors import InvalidInput, Problem, Refused, RunrigError, ServerFault, TooMany
from runrig.domain.statuses import kind_of


class NoAnswer(ServerFault):
    """No runrig server responded, or not in time."""


def server_said(status: int, body: str, remark: str = "") -> RunrigError:
    """Returns the error in the problem details of a response. *remark*: appended to its message."""
    answer = _parsed(body)
    message = answer.get("detail")
    if not isinstance(message, str) or not message:
        message = f"the server answered with status {status}" + (f": {body.strip()[:500]}" if body.strip() else "")
    else:
        message += remark
    details = answer.get("details")
    code = answer.get("code")
    kind = kind_of(status, code)
    error = _made(kind, message, details if isinstance(details, dict) else {}, _problems(answer.get("problems")))
    if isinstance(code, str) and code:
        error.code = code
    return error


def _made(
    kind: type[RunrigError], message: str, details: Mapping[str, Any], problems: tuple[Problem, ...]
) -> RunrigError:
    error = kind.__new__(kind)
    RunrigError.__init__(error, message, details)
    if isinstance(error, InvalidInput):
        error.problems = problems
    elif isinstance(error, Refused):
        error.law = str(details.get("law", ""))
    elif isinstance(error, TooMany):
        after = details.get("retry_after_s")
        error.retry_after_s = after if isinstance(after, int) else 1
    return error


def _parsed(body: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _problems(found: object) -> tuple[Problem, ...]:
    return tuple(
        Problem(str(each.get("message", "")), str(each.get("path") or ""), each.get("line"), each.get("column"))
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, dict)
    )
