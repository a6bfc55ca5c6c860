"""Every error that a user can see, and the exit code that the command line gives it.

RunrigError
├─ InvalidInput    the input breaks the rules: all problems at once               exit 2
├─ NotFound        no such pool, workflow, node                                   exit 2
├─ Conflict        the name is taken, or the object is in a state that forbids it  exit 1
│  └─ Changed      it is no longer what the request was made for                  exit 1
├─ Refused         a rule forbids it, with the numbers                            exit 1
├─ NoCredential    a credential that the work names is not there                  exit 1
├─ NotAllowed      wrong token, wrong origin, not your pool                       exit 4
│  └─ NotLoggedIn  no token, or one that is not valid                             exit 4
├─ Unavailable     not now: starting, stopping, another server wrote              exit 75
│  └─ TooMany      too many failed logins: wait                                   exit 75
└─ ServerFault     a fault of the server machine: disk, database, port            exit 10
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input.  *path* is dotted (``workflow.tasks[0].image``); line and column count from 1, None if unknown."""

    message: str
    path: str = ""
    line: int | None = None
    column: int | None = None

    def located(self, source: str) -> str:
        """``file.yaml:3:7: message``; line and column are left out if unknown."""
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        return f"{place}: {self.message}"


class RunrigError(Exception):
    """Base class of all errors.  *details*: the numbers of the message as data."""

    code = "ERROR"
    exit_code = 1

    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, object] = details or {}


class InvalidInput(RunrigError):
    """A file, a field or a name that does not follow the rules; nothing was stored."""

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
    """Somebody else changed the object since the one who asks read it; nothing was stored."""


class Refused(RunrigError):
    """The request can never run, or would break a promise.  *law*: the rule (docs/laws.md) that forbids it."""

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
    """The message never says what is wrong with the token; the server's log does."""

    def __init__(
        self, message: str = "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'"
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
    """A decision failed while the engine was at *workflow*.  Only a mistake of the server raises it, from the error itself."""

    def __init__(self, workflow: str) -> None:
        super().__init__(workflow)
        self.workflow = workflow

    def __str__(self) -> str:
        return f"at workflow {self.workflow}: {type(self.__cause__).__name__}: {self.__cause__}"


class At:
    """``with At(workflow):`` names the workflow whom a walk is at, so that an error inside is a `FailedAt` of it.

    The innermost one counts.  An error that is no mistake (`RunrigError`) passes as it is.
    """

    __slots__ = ("_workflow",)

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, FailedAt | RunrigError):
            raise FailedAt(self._workflow) from error
