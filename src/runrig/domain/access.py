"""Who may do what: users, their tokens, the roles that they are granted, and the one rule that reads them (law S5).

A role on a pool is a role on its subpools, by the exact name of the pool or by ``pool--subpool``; never by a bare beginning, so
that `team` does not open `team2`.
"""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.errors import InvalidInput
from runrig.domain.pools import SUBPOOL_DELIMITER, name_problem

LONGEST_USER_NAME = 128
LONGEST_TOKEN_NAME = 64


class Kind(enum.Enum):
    """ADMIN: everything.  VIEWER: reads everything.  POOL_ADMIN: a pool and its subpools.  POOL_USER: works in them."""

    ADMIN = "admin"
    VIEWER = "viewer"
    POOL_ADMIN = "pool-admin"
    POOL_USER = "pool-user"


class Permission(enum.Enum):
    """What a route needs.

    LIST_POOLS: asking which pools there are; the answer has those that one sees.  CHANGE_WORKFLOW: cancel, restart.  CHANGE_POOL:
    settings of a pool.  READ_CLUSTER: nodes, topology.  CHANGE_CLUSTER: cluster files, cohorts, top-level pools and their quotas.
    CONNECT: nothing but a good token.  READ_EVERYTHING: what is about all pools at once, such as metrics.
    OWN_TOKENS: one's own.  ACCESS: users, roles, and the tokens of others.
    """

    CONNECT = "connect"
    LIST_POOLS = "list pools"
    READ_POOL = "read pool"
    SUBMIT = "submit"
    READ_WORKFLOW = "read workflow"
    CHANGE_WORKFLOW = "change workflow"
    CHANGE_SUBPOOLS = "change subpools"
    CHANGE_POOL = "change pool"
    READ_CLUSTER = "read cluster"
    READ_EVERYTHING = "read everything"
    CHANGE_CLUSTER = "change cluster"
    OWN_TOKENS = "own tokens"
    ACCESS = "access"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role.  *pool* None: on all pools; ADMIN is on all, POOL_ADMIN on one."""

    kind: Kind
    pool: str | None = None

    def __post_init__(self) -> None:
        assert self.kind is not Kind.ADMIN or self.pool is None, "an admin of one pool is POOL_ADMIN"
        assert self.kind is not Kind.POOL_ADMIN or self.pool is not None, "an admin of all pools is ADMIN"

    def covers(self, pool: str | None) -> bool:
        """Whether it is a role on *pool*; None: on what belongs to no pool."""
        if self.pool is None or pool is None:
            return self.pool is None
        parent, delimiter, short = pool.partition(SUBPOOL_DELIMITER)
        return parent == self.pool and (not delimiter or name_problem("subpool", short) is None)

    def __str__(self) -> str:
        """Its name: ``admin``, ``viewer``, ``user`` for all pools, else ``{pool}-admin``, ``{pool}-user``, ``{pool}-viewer``."""
        word = _WORDS[self.kind]
        return word if self.pool is None else f"{self.pool}-{word}"


_WORDS: Mapping[Kind, str] = {
    Kind.ADMIN: "admin",
    Kind.VIEWER: "viewer",
    Kind.POOL_ADMIN: "admin",
    Kind.POOL_USER: "user",
}


@dataclass(frozen=True, slots=True)
class User:
    """*disabled*: none of the tokens works; the name stays taken, because the logs name it."""

    name: str
    grants: tuple[Grant, ...]
    created_at: float
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A role of *user*.  *granted_by*: the actor; that of a cluster file begins with ``apply by``."""

    user: str
    grant: Grant
    granted_at: float
    granted_by: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    """*hash*: SHA-256 of the token in hexadecimal; the token itself is kept nowhere."""

    id: str
    name: str
    user: str
    hash: str = field(repr=False)
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None
    revoked_at: float | None = None

    def problem(self, now: float) -> str | None:
        """Why it is good no longer, None if it still is."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return None


class AccessEventKind(enum.Enum):
    USER_CREATED = "user created"
    USER_DISABLED = "user disabled"
    USER_ENABLED = "user enabled"
    TOKEN_CREATED = "token created"  # noqa: S105 - no token
    TOKEN_REVOKED = "token revoked"  # noqa: S105
    ROLE_GRANTED = "role granted"
    ROLE_REVOKED = "role revoked"


@dataclass(frozen=True, slots=True)
class AccessEvent:
    """An entry of the audit trail of access, which is kept for ever.  *actor* did it, *user* is whom it is about.

    *subject*: the name of the role or of the token, "" if it is about the user.  *number*: its place in the trail, from 1.
    """

    number: int
    time: float
    actor: str
    kind: AccessEventKind
    user: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks.  *token*: the id of the token that says so, "" for the one of `up`.

    *speaks_for_others*: whoever has it started the server, and may say in whose name work is done; only in `up`.
    """

    user: str
    grants: tuple[Grant, ...]
    token: str = ""
    speaks_for_others: bool = False

    @property
    def admin(self) -> bool:
        return any(grant.kind is Kind.ADMIN for grant in self.grants)


# ---------------------------------------------------------------- the rule

_READERS = frozenset(Kind)
_WORKERS = frozenset({Kind.ADMIN, Kind.POOL_ADMIN, Kind.POOL_USER})
_MANAGERS = frozenset({Kind.ADMIN, Kind.POOL_ADMIN})
_ADMINS = frozenset({Kind.ADMIN})

_ENOUGH: Mapping[Permission, frozenset[Kind]] = {
    Permission.READ_POOL: _READERS,
    Permission.SUBMIT: _WORKERS,
    Permission.READ_WORKFLOW: _READERS,
    Permission.CHANGE_WORKFLOW: _MANAGERS,
    Permission.CHANGE_SUBPOOLS: _MANAGERS,
    Permission.CHANGE_POOL: _MANAGERS,
    Permission.READ_CLUSTER: _READERS,
    Permission.READ_EVERYTHING: frozenset({Kind.ADMIN, Kind.VIEWER}),
    Permission.CHANGE_CLUSTER: _ADMINS,
    Permission.ACCESS: _ADMINS,
}
"""The kinds of which one on the pool is enough."""

OF_A_POOL = frozenset(
    {
        Permission.READ_POOL,
        Permission.SUBMIT,
        Permission.READ_WORKFLOW,
        Permission.CHANGE_WORKFLOW,
        Permission.CHANGE_SUBPOOLS,
        Permission.CHANGE_POOL,
    }
)
"""Permissions that are asked for with a pool; without one only a role on all pools is enough."""


def allows(
    identity: Identity,
    permission: Permission,
    *,
    pool: str | None = None,
    parent: str | None = None,
    owner: str | None = None,
) -> bool:
    """Whether *identity* may do it.

    *pool*: the whole name of the pool that it is about.  *parent*: of a subpool that is not there yet.  *owner*: whose workflow
    it is, or whose tokens.
    """
    if permission in (Permission.CONNECT, Permission.LIST_POOLS, Permission.OWN_TOKENS):
        return True
    if permission is Permission.READ_CLUSTER:
        return bool(identity.grants)
    mine = owner is not None and owner == identity.user
    if permission is Permission.ACCESS and mine:
        return True
    enough = _WORKERS if permission is Permission.CHANGE_WORKFLOW and mine else _ENOUGH[permission]
    about = (pool if pool is not None else parent) if permission in OF_A_POOL else None
    return any(grant.kind in enough and grant.covers(about) for grant in identity.grants)


# ---------------------------------------------------------------- names

_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SUFFIXES: tuple[tuple[str, Kind], ...] = (
    ("-admin", Kind.POOL_ADMIN),
    ("-user", Kind.POOL_USER),
    ("-viewer", Kind.VIEWER),
)
_GLOBAL: Mapping[str, Grant] = {
    "admin": Grant(Kind.ADMIN),
    "viewer": Grant(Kind.VIEWER),
    "user": Grant(Kind.POOL_USER),
}


def role_named(text: str) -> Grant:
    """The role that is called *text*, as `Grant.__str__` writes it.  Raises InvalidInput."""
    if text in _GLOBAL:
        return _GLOBAL[text]
    for suffix, kind in _SUFFIXES:
        pool = text.removesuffix(suffix)
        if pool != text:
            return role_on(kind, pool)
    raise InvalidInput.one(
        f"{text!r} is no role: write admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user", "role"
    )


def role_on(kind: Kind, pool: str | None) -> Grant:
    """ADMIN of one pool is its POOL_ADMIN.  Raises InvalidInput for what cannot be the name of a top-level pool (law S5)."""
    if pool is None:
        return Grant(Kind.ADMIN if kind is Kind.POOL_ADMIN else kind)
    parent, delimiter, _ = pool.partition(SUBPOOL_DELIMITER)
    if delimiter:
        raise InvalidInput.one(
            f"{pool!r} is a subpool, and a role on a pool is one on all of its subpools: grant it on {parent!r}", "role"
        )
    problem = name_problem("pool", pool)
    if problem is not None:
        raise InvalidInput.one(problem, "role")
    return Grant(Kind.POOL_ADMIN if kind is Kind.ADMIN else kind, pool)


def user_problem(name: str) -> str | None:
    """Why nobody can be called *name*, or None."""
    if len(name) > LONGEST_USER_NAME:
        return f"user name of {len(name)} characters is too long: at most {LONGEST_USER_NAME}"
    if not _USER.fullmatch(name):
        return (
            f"user name {name!r} must be letters, digits and '.', '_', '@', '+', '-', and start with a letter or digit"
        )
    return None


def token_name_problem(name: str) -> str | None:
    """Why no token can be called *name*, or None."""
    if len(name) > LONGEST_TOKEN_NAME:
        return f"token name of {len(name)} characters is too long: at most {LONGEST_TOKEN_NAME}"
    if not _TOKEN.fullmatch(name):
        return f"token name {name!r} must be letters, digits and '.', '_', '-', and start with a letter or digit"
    return None
