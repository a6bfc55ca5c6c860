"""Which of several servers owns the database."""

from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class Holder:
    """Who owns the database: *who* in words, *session* of the database.

    *silent_s*: since its last heartbeat; None if it gives none (it is only starting, or no server).
    """

    who: str
    session: int
    silent_s: float | None


class Term(Protocol):
    """This process owns the database, from `Election.take` to `close`, or until another server takes it."""

    @property
    def overtaken(self) -> bool:
        """A write has found that another server leads."""

    def beat(self) -> bool:
        """Tells the others that this process lives; False if another one leads.  Raises Unavailable if it cannot be told."""

    def close(self) -> None:
        """The next one may take it at once."""


AnyTerm = TypeVar("AnyTerm", bound=Term, covariant=True)


class Election(Protocol[AnyTerm]):
    """Raises Unavailable and ServerFault as the store does."""

    def holder(self) -> Holder | None:
        """None: nobody owns the database."""

    def take(self) -> AnyTerm:
        """Raises Unavailable if somebody else was faster; where there are no turns to take, ServerFault."""

    def end(self, holder: Holder) -> None:
        """Takes the database from *holder*, who has said nothing for too long."""

    def close(self) -> None: ...
