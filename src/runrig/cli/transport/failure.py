"""Failures for users and scripts: one message, one code, one exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

from runrig.domain.errors import InvalidInput, Problem, RunrigError
from runrig.domain.laws import cited


class FileProblems(RunrigError):
    """All errors of a file, one per line: ``file:line:column: message``."""

    code = InvalidInput.code
    exit_code = InvalidInput.exit_code

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(
            "\n".join(problem.located(source) for problem in problems), {"problems": [_as_data(p) for p in problems]}
        )


def _as_data(problem: Problem) -> dict[str, object]:
    return {name: getattr(problem, name) for name in ("message", "path", "line", "column")}


@contextmanager
def located(source: str | None) -> Iterator[None]:
    """Adds the file *source* to the positions of errors raised inside; None: they are not about a file."""
    try:
        yield
    except InvalidInput as error:
        if source is None or not error.problems:  # An error that is not about the file.
            raise
        raise FileProblems(source, error.problems) from None


def document(error: RunrigError) -> dict[str, object]:
    """*error* in JSON mode: ``message``, ``code``, and ``details`` if it has any."""
    answer: dict[str, object] = {"message": error.message, "code": error.code}
    if isinstance(error, InvalidInput) and error.problems:
        return answer | {"details": {"problems": [_as_data(problem) for problem in error.problems]}}
    return answer | ({"details": dict(error.details)} if error.details else {})


def sentence(error: RunrigError) -> str:
    """Returns *error* in text mode. Errors of a file are printed verbatim, so that editors can jump to them."""
    if isinstance(error, FileProblems):
        return error.message
    law = str(error.details.get("law", ""))
    return f"Error: {error.message} {cited(law)}" if law else f"Error: {error.message}"
