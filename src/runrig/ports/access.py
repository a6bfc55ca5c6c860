"""Storage of users, roles and tokens, and of the trail of their changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.access import AccessEvent, BrowserSession, GrantRow, Profile, TokenRow, User
from runrig.domain.credentials import Credential


@dataclass(frozen=True, slots=True)
class AccessRows:
    """*users*: with the grants that *grants* has too.  *tokens*: also those that are no longer valid."""

    users: tuple[User, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    tokens: tuple[TokenRow, ...] = ()
    credentials: tuple[Credential, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessChange:
    """Rows to write, and events for the audit trail.  *grants* and *withdrawn* name users that exist or are in *users*.

    *dropped*: credentials that are no more.

    The store gives an event its *number*.
    """

    events: tuple[AccessEvent, ...]
    users: tuple[User, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    withdrawn: tuple[GrantRow, ...] = ()
    tokens: tuple[TokenRow, ...] = ()
    credentials: tuple[Credential, ...] = ()
    dropped: tuple[Credential, ...] = ()


class AccessStore(Protocol):
    """Stored separately from the state of the cluster: its changes have no revision."""

    def load(self) -> AccessRows:
        """Users by name, grants by user and role, tokens by their id."""

    def write(self, change: AccessChange) -> None:
        """Writes *change* in one transaction."""

    def sessions(self) -> tuple[BrowserSession, ...]:
        """By hash."""

    def put_sessions(self, sessions: Iterable[BrowserSession], ended: Iterable[str]) -> None:
        """Writes *sessions*, and deletes those with a hash of *ended*."""

    def used(self, last_used_at: Mapping[str, float]) -> None:
        """Stores when tokens were last used: id → time."""

    def events(self, *, user: str | None, before: int | None, limit: int) -> tuple[AccessEvent, ...]:
        """The newest first, all or those about *user*; *before*: only those with a lower number."""

    def profile(self, user: str) -> Profile:
        """The profile of *user*; one in which nothing is set if there is none."""

    def set_profile(self, user: str, changes: Mapping[str, str | bool]) -> Profile:
        """The profile of *user* with *changes*, by field."""

    def secret(self, name: str, made: str) -> str:
        """The secret kept under *name*; stores *made* if there is none."""
