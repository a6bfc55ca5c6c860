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

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem with an input. *path*: dotted (``workflow.tasks[0].image``). *line*, *column*: from 1; None: unknown."""

    message: str
    path: str = ""
    line: int | None = None
    column: int | None = None

    def located(self, source: str) -> str:
        """``file.yaml:3:7: message``; without line and column if they are unknown."""
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        return f"{place}: {self.message}"


class RunrigError(Exception):
    """Base class of all errors. *details*: the numbers in the message, as data."""

    code = "ERROR"
    exit_code = 1

    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
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


class NotFound(RunrigError):
    code = "NOTFOUND"
    exit_code = 2


class Conflict(RunrigError):
    code = "CONFLICT"


class Changed(Conflict):
    """The object was changed by another user since the client read it. Nothing was stored."""


class Refused(RunrigError):
    """The request can never run, or would break a guarantee. *law*: the rule that forbids it (docs/laws.md)."""

    code = "RESOURCE"

    def __init__(self, message: str, law: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message, {"law": law, **(details or {})})
        self.law = law


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
