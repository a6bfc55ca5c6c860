"""Storage of users, roles, tokens and their audit trail."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from runrig.domain.access import BrowserSession, GrantRow, Profile, TokenRow, User
from runrig.domain.credentials import Credential
from runrig.domain.trail import AccessEvent


@dataclass(frozen=True, slots=True)
class AccessRows:
    """*users*: with their grants, which are also in *grants*. *tokens*: including expired and revoked ones."""

    users: tuple[User, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    tokens: tuple[TokenRow, ...] = ()
    credentials: tuple[Credential, ...] = ()


@dataclass(slots=True)
class AccessChange:
    """Rows to write and events for the audit trail. *grants* and *withdrawn* refer to users that exist or are in
    *users*.

    *dropped*: deleted credentials. The store numbers the events.
    """

    events: list[AccessEvent] = field(default_factory=list)
    users: list[User] = field(default_factory=list)
    grants: list[GrantRow] = field(default_factory=list)
    withdrawn: list[GrantRow] = field(default_factory=list)
    tokens: list[TokenRow] = field(default_factory=list)
    credentials: list[Credential] = field(default_factory=list)
    dropped: list[Credential] = field(default_factory=list)


class AccessStore(Protocol):
    """Separate from the cluster state: changes here have no revision."""

    def load(self) -> AccessRows:
        """Returns users by name, grants by user and role, tokens by id."""

    def write(self, change: AccessChange) -> None:
        """Writes *change* in one transaction."""

    def sessions(self) -> tuple[BrowserSession, ...]:
        """Returns the sessions, by hash."""

    def put_sessions(self, sessions: Iterable[BrowserSession], ended: Iterable[str]) -> None:
        """Writes *sessions* and deletes those whose hash is in *ended*."""

    def used(self, last_used_at: Mapping[str, float]) -> None:
        """Stores when tokens were last used: id → time in seconds since the epoch."""

    def events(
        self, *, user: str | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[AccessEvent, ...]:
        """Returns the audit trail, newest first. *user* None: of all users. *before*: only events with a lower number."""

    def profile(self, user: str) -> Profile:
        """Returns the profile of *user*, an empty one if none is stored."""

    def set_profile(self, user: str, changes: Mapping[str, str | bool | None]) -> None:
        """Stores *changes* by field. The caller checks whether *user* can use the pool; it is checked again at each use."""

    def secret(self, name: str, made: str) -> str:
        """Returns the secret stored as *name*. Stores *made* first if there is none."""
