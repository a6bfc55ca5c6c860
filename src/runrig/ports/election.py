"""Which of several servers leads, and so owns the database."""

from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner of the database. *who*: a description. *session*: its number in the database.

    *silent_s*: seconds since its last heartbeat; None if it has none (it is still starting, or is not a server).
    """

    who: str
    session: int
    silent_s: float | None


class Term(Protocol):
    """This process owns the database, from `Election.take` until `close` or until another server takes over."""

    @property
    def overtaken(self) -> bool:
        """Returns True once a write has failed because another server leads."""

    def beat(self) -> bool:
        """Sends a heartbeat. Returns False if another server leads. Raises Unavailable."""

    def close(self) -> None:
        """Lets the next server take over the database immediately."""


AnyTerm = TypeVar("AnyTerm", bound=Term, covariant=True)


class Election(Protocol[AnyTerm]):
    """Methods raise Unavailable and ServerFault like the store."""

    def holder(self) -> Holder | None:
        """Returns the owner; None if the database has none."""

    def take(self) -> AnyTerm:
        """Takes over the database. Raises Unavailable if another server was faster, ServerFault if only one server is possible."""

    def end(self, holder: Holder) -> None:
        """Takes the database from *holder*, which has been silent too long."""

    def close(self) -> None: ...
