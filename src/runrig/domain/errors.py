"""Every error that users can see, with its exit code on the command line.

RunrigError
- InvalidInput (exit 2): the input breaks the rules; lists all problems
- NotFound (exit 2): unknown pool, workflow or node
- Conflict (exit 1): the name is taken, or the state of the object forbids it
  - Changed (exit 1): the object changed since the client read it
- Refused (exit 1): a scheduling rule forbids it; has the numbers
- NoCredential (exit 1): the workflow names a credential that does not exist
- NotAllowed (exit 4): wrong token, wrong origin, or no role on the pool
  - NotLoggedIn (exit 4): the token is missing or not valid
- Unavailable (exit 75): try later: starting, stopping, or another server has written
  - TooMany (exit 75): too many failed logins
- ServerFault (exit 10): a problem of the server machine: disk, database, port
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from runrig.domain.gangs import Gang

MOST_OF_A_WORD, MOST_OF_A_MESSAGE = 500, 2_000
"""Characters. Messages quote wrong values, which can be as large as a request."""
_LONG_WORD = re.compile(rf"\S{{{MOST_OF_A_WORD + 1},}}")


def shortened(message: str) -> str:
    """Returns *message*, without the middle of words that are too long."""
    if len(message) <= MOST_OF_A_WORD:
        return message
    return _LONG_WORD.sub(lambda word: _without_middle(word[0], MOST_OF_A_WORD), message)


def _without_middle(text: str, most: int) -> str:
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem with an input. *path*: dotted (``workflow.tasks[0].image``). *line*, *column*: from 1; None: unknown."""

    message: str
    path: str = ""
    line: int | None = None
    column: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _without_middle(shortened(self.message), MOST_OF_A_MESSAGE))

    def located(self, source: str) -> str:
        """``file.yaml:3:7: message``; without line and column if they are unknown."""
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        return f"{place}: {self.message}"


class RunrigError(Exception):
    """Base class of all errors. *details*: the numbers in the message, as data."""

    code = "ERROR"
    exit_code = 1

    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        self.message = shortened(message)
        super().__init__(self.message)
        self.details: Mapping[str, object] = details or {}


class InvalidInput(RunrigError):
    """A file, field or name breaks the rules. Nothing was stored."""

    code = "USAGE"
    exit_code = 2

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems

    @classmethod
    def one(cls, message: str, path: str = "") -> "InvalidInput":
        return cls((Problem(message, path),))

    @classmethod
    def check(cls, problem: str | None, path: str = "") -> None:
        """Raises InvalidInput if there is a *problem*."""
        if problem:
            raise cls.one(problem, path)


class NotFound(RunrigError):
    code = "NOTFOUND"
    exit_code = 2


class Conflict(RunrigError):
    code = "CONFLICT"


class Changed(Conflict):
    """The object was changed by another user since the client read it. Nothing was stored."""


class Refused(RunrigError):
    """The request can never run, or would break a guarantee. *law*: the rule that forbids it (docs/laws.md).

    *gang*: set by the gate if no quota or nodes could ever hold it (rule P3), for the log.
    """

    code = "RESOURCE"
    gang: Gang | None = None

    def __init__(self, message: str, law: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message, {"law": law, **(details or {})})
        self.law = law

    def of(self, gang: Gang) -> Self:
        self.gang = gang
        return self


class NoCredential(RunrigError):
    code = "CREDENTIAL"


class NotAllowed(RunrigError):
    code = "FORBIDDEN"
    exit_code = 4


class NotLoggedIn(NotAllowed):
    """The message never explains what is wrong with the token; only the server's log does."""

    def __init__(
        self, message: str = "the token is missing or invalid. Send the header 'Authorization: Bearer TOKEN'"
    ) -> None:
        super().__init__(message)


class Unavailable(RunrigError):
    code = "UNAVAILABLE"
    exit_code = 75


class TooMany(Unavailable):
    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message, {"retry_after_s": retry_after_s})
        self.retry_after_s = retry_after_s


class ServerFault(RunrigError):
    code = "SERVER"
    exit_code = 10


class FailedAt(Exception):
    """A decision failed while the engine was processing *workflow*. Always a bug of the server; the cause is the original error.

    *owner*: if it is not about a workflow: the pool or user whose pause or budget it is (`budgets.Scope`).
    """

    def __init__(self, workflow: str, owner: tuple[str, str] | None = None) -> None:
        super().__init__(workflow or owner)
        self.workflow = workflow
        self.owner = owner

    def __str__(self) -> str:
        where = f"workflow {self.workflow}" if self.owner is None else " ".join(self.owner)
        return f"at {where}: {type(self.__cause__).__name__}: {self.__cause__}"


class At:
    """``with At(workflow):`` turns an error inside the block into a `FailedAt` that names the workflow, or the *owner*.

    The innermost block counts. A `RunrigError` is not a bug and passes unchanged.
    """

    __slots__ = ("_owner", "_workflow")

    def __init__(self, workflow: str, owner: tuple[str, str] | None = None) -> None:
        self._workflow = workflow
        self._owner = owner

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, FailedAt | RunrigError):
            raise FailedAt(self._workflow, self._owner) from error
