"""Which of several servers owns the database."""

from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner of the database: *who* in words; *session*: its number in the database.

    *silent_s*: seconds since its last heartbeat; None if it has none (it is still starting, or is not a server).
    """

    who: str
    session: int
    silent_s: float | None


class Term(Protocol):
    """This process owns the database, from `Election.take` to `close`, or until another server takes it."""

    @property
    def overtaken(self) -> bool:
        """True once a write has found that another server leads."""

    def beat(self) -> bool:
        """Tells the others that this process is alive; False if another one leads.  Raises Unavailable if it cannot."""

    def close(self) -> None:
        """Lets the next server take over the database immediately."""


AnyTerm = TypeVar("AnyTerm", bound=Term, covariant=True)


class Election(Protocol[AnyTerm]):
    """Raises Unavailable and ServerFault as the store does."""

    def holder(self) -> Holder | None:
        """The owner; None if the database has no owner."""

    def take(self) -> AnyTerm:
        """Takes over the database.  Raises Unavailable if another server was faster, ServerFault if it allows one server only."""

    def end(self, holder: Holder) -> None:
        """Takes the database from *holder*, which has been silent too long."""

    def close(self) -> None: ...
