"""Every error that a person can meet, and the exit code that the command line gives it.

RunrigError
├─ InvalidInput    what was written cannot be read: all problems at once          exit 2
├─ NotFound        no such pool, workflow, node                                   exit 2
├─ Conflict        the name is taken, or the object is in a state that forbids it  exit 1
├─ Refused         a rule says no, with its numbers                               exit 1
├─ NotAllowed      wrong token, wrong origin, not your pool                       exit 4
│  └─ NotLoggedIn  no token, or one that is not good                              exit 4
├─ Unavailable     not now: starting, stopping, another server wrote              exit 75
│  └─ TooMany      too many failed logins: wait                                   exit 75
└─ ServerFault     the machine under us: disk, database, port                     exit 10
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input.  *path* is dotted (``workflow.tasks[0].image``); line and column count from 1, None if unknown."""

    message: str
    path: str = ""
    line: int | None = None
    column: int | None = None

    def located(self, source: str) -> str:
        """``file.yaml:3:7: message``, as far as the place is known."""
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        return f"{place}: {self.message}"


class RunrigError(Exception):
    """Base of all of them.  *details* holds the numbers of the message as data."""

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


class Refused(RunrigError):
    """Can never run, or would break a promise: *law* is the rule of the design that says so."""

    code = "RESOURCE"

    def __init__(self, message: str, law: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message, {"law": law, **(details or {})})
        self.law = law


class NotAllowed(RunrigError):
    code = "FORBIDDEN"
    exit_code = 4


class NotLoggedIn(NotAllowed):
    """Says the same whatever is wrong with the token; the server's log says which."""

    def __init__(self) -> None:
        super().__init__("the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'")


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
