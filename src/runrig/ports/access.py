"""Storage of users, roles and tokens, and of the trail of their changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.access import AccessEvent, GrantRow, TokenRow, User


@dataclass(frozen=True, slots=True)
class AccessRows:
    """*users*: with the grants that *grants* has too.  *tokens*: also those that are good no longer."""

    users: tuple[User, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    tokens: tuple[TokenRow, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessChange:
    """Rows to write, and what the audit trail says of it.  *grants* and *withdrawn* are of users that are there or in *users*.

    The *number* of an event is given by the store.
    """

    events: tuple[AccessEvent, ...]
    users: tuple[User, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    withdrawn: tuple[GrantRow, ...] = ()
    tokens: tuple[TokenRow, ...] = ()


class AccessStore(Protocol):
    """Beside the state of the cluster: its changes have no revision."""

    def load(self) -> AccessRows:
        """Users by name, grants by user and role, tokens by their id."""

    def write(self, change: AccessChange) -> None:
        """All of it in one transaction."""

    def used(self, last_used_at: Mapping[str, float]) -> None:
        """Notes when tokens were used last: id → time."""

    def events(self, *, user: str | None, before: int | None, limit: int) -> tuple[AccessEvent, ...]:
        """The newest first, all or those about *user*; *before*: only those with a lower number."""

    def secret(self, name: str, made: str) -> str:
        """The one that is kept as *name*: *made* if there was none."""
