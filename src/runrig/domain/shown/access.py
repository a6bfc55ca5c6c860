"""Users, roles, tokens and credentials in responses. Only a new token contains a secret."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from runrig.domain import credentials
from runrig.domain.access import GrantRow, TokenRow, role_named
from runrig.domain.access import User as KnownUser
from runrig.domain.credentials import CredentialKind
from runrig.domain.tags import etag_of
from runrig.domain.value import Page, Shown, Tagged, at, example, shown_as

_TIME = 1769860800.0


@dataclass(frozen=True, slots=True)
class Token(Tagged):
    """*state*: good, expired or revoked. The tokens of a disabled user do not work, even if they are good. *expires_at*
    null: never.

    *roles*: the roles that the token grants, as long as its user has them; null: all roles of the user.
    """

    name: str
    user: str
    description: str
    roles: tuple[str, ...] | None
    state: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    @classmethod
    def of(cls, row: TokenRow, now: float, **more: Any) -> Self:
        """*now*: seconds since the epoch."""
        return cls(
            name=row.name,
            user=row.user,
            description=row.description,
            roles=row.roles,
            state=row.problem(now) or "good",
            created_at=at(row.created_at),
            expires_at=at(row.expires_at),
            last_used_at=at(row.last_used_at),
            revoked_at=at(row.revoked_at),
            etag=etag_of(row),
            **more,
        )


_LAPTOP = TokenRow("", "laptop", "alice", "", _TIME, 1777636800.0, description="at home", roles=("vision-user",))

shown_as(Token.of(_LAPTOP, _TIME))


class TokenPage(Page[Token]):
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class TokenMade(Token):
    """*token*: the token itself, shown once and not stored. Within ten minutes, the same request with the same
    Idempotency-Key returns it again.
    """

    token: str = field(repr=False)


shown_as(TokenMade.of(_LAPTOP, _TIME, token="the-43-characters-that-are-shown-only-this-once"))  # noqa: S106 - an example


@dataclass(frozen=True, slots=True)
class User(Tagged):
    """*roles*: admin, viewer, user (of all pools), or roles on one pool: vision-admin, vision-user, vision-viewer."""

    name: str
    roles: tuple[str, ...]
    created_at: datetime
    disabled: bool

    @classmethod
    def of(cls, user: KnownUser) -> "User":
        return cls(user.name, user.roles, at(user.created_at), user.disabled, etag=etag_of(user))


shown_as(User.of(KnownUser("alice", (role_named("vision-user"),), _TIME)))


class UserPage(Page[User]):
    """Sorted by name."""


@dataclass(frozen=True, slots=True)
class Role(Tagged):
    """*role*: a name such as vision-user.  *pool*: null for a role on all pools.  *granted_by*: a user, or `apply by` a user."""

    user: str
    role: str
    pool: str | None
    granted_at: datetime
    granted_by: str

    @classmethod
    def of(cls, row: GrantRow) -> "Role":
        return cls(
            user=row.user,
            role=str(row.grant),
            pool=row.grant.pool,
            granted_at=at(row.granted_at),
            granted_by=row.granted_by,
            etag=etag_of(row),
        )


shown_as(Role.of(GrantRow("alice", role_named("vision-user"), _TIME, "apply by root")))


class RolePage(Page[Role]):
    """Sorted by user, then by role."""


@dataclass(frozen=True, slots=True)
class MyToken(Shown):
    """*expires_at* null: never.  *name*: `sign-in` for the token of a single sign-on."""

    name: str
    expires_at: datetime | None


shown_as(MyToken("laptop", at(_LAPTOP.expires_at)))


@dataclass(frozen=True, slots=True)
class Me(Shown):
    """The user who sent the request. *pools*: the pools to which this user may submit.

    *default_pool*: the pool for workflows that do not name one: the user's own default, otherwise the only top-level
    pool in *pools*; null if there are several or none.
    *token*: the token of this request; null for the token of `up`.
    """

    user: str
    roles: tuple[str, ...]
    pools: tuple[str, ...]
    default_pool: str | None
    token: MyToken | None


shown_as(Me("alice", ("vision-user",), ("vision", "vision--a"), "vision", example(MyToken)))


@dataclass(frozen=True, slots=True)
class Credential(Tagged):
    """*keys*: names of its values, which are never shown. *profile*: the registry, or the address of the data, if it
    has one.

    *lost*: its values are missing since a restore; set them again.
    """

    name: str
    type: CredentialKind
    keys: tuple[str, ...]
    profile: str
    changed_at: datetime
    lost: bool

    @classmethod
    def of(cls, kept: credentials.Credential) -> "Credential":
        return cls(
            name=kept.name,
            type=kept.kind,
            keys=kept.keys,
            profile=kept.profile,
            changed_at=at(kept.changed_at),
            lost=not kept.sealed,
            etag=etag_of(kept),
        )


shown_as(
    Credential.of(credentials.Credential("alice", "wandb", CredentialKind.GENERIC, ("api_key",), "", _TIME, "sealed"))
)


class CredentialPage(Page[Credential]):
    """Sorted by name."""


@dataclass(frozen=True, slots=True)
class Resealed(Shown):
    """*count*: number of credentials encrypted with the newest key. *unread*: number of credentials that no key in the
    file can decrypt.
    """

    count: int
    unread: int


shown_as(Resealed(12, 0))
