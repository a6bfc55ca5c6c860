"""Failures as people and scripts read them: one message, one code, one exit code."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


class FileProblems(RunrigError):
    """All problems of a file, one per line: ``file:line:column: message``."""

    code = InvalidInput.code
    exit_code = InvalidInput.exit_code

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(
            "\n".join(problem.located(source) for problem in problems), {"problems": [_as_data(p) for p in problems]}
        )


def _as_data(problem: Problem) -> dict[str, object]:
    return {name: getattr(problem, name) for name in ("message", "path", "line", "column")}


@contextmanager
def located(source: str) -> Iterator[None]:
    """Adds the file *source* to the places of problems raised inside."""
    try:
        yield
    except InvalidInput as error:
        raise FileProblems(source, error.problems) from None
    except ServerSaid as error:
        if not error.problems:
            raise
        raise FileProblems(source, error.problems) from None


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


def document(error: RunrigError) -> dict[str, object]:
    """*error* in JSON mode: ``message``, ``code``, and ``details`` if it has any."""
    answer: dict[str, object] = {"message": error.message, "code": error.code}
    if isinstance(error, InvalidInput):
        return answer | {"details": {"problems": [_as_data(problem) for problem in error.problems]}}
    return answer | ({"details": dict(error.details)} if error.details else {})


def sentence(error: RunrigError) -> str:
    """*error* in text mode.  Problems of a file are shown verbatim, so that editors can jump to them."""
    return error.message if isinstance(error, FileProblems) else f"Error: {error.message}"
