"""Access control: users, tokens and roles, and the function that decides (rule S5).

A role on a pool also covers its subpools. Pools are matched by exact name or as ``pool--subpool``, never by prefix: a
role on `team` does not cover `team2`.
"""

import enum
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from runrig.domain.errors import InvalidInput
from runrig.domain.pools import SUBPOOL_DELIMITER, name_problem

LONGEST_USER_NAME = 128
LONGEST_TOKEN_NAME = 64
DEFAULT_EXPIRY_S = 90 * 86_400.0
"""The expiry of a token whose user sets none."""


class RoleKind(enum.Enum):
    """ADMIN can do everything, VIEWER read everything, POOL_ADMIN manage a pool and its subpools, POOL_USER submit to them."""

    ADMIN = "admin"
    VIEWER = "viewer"
    POOL_ADMIN = "pool-admin"
    POOL_USER = "pool-user"


class Permission(enum.Enum):
    """The permission that a route requires.

    CONNECT: any valid token. LIST_POOLS: list the pools that the user can see. SEND_CODE: for work in some pool.
    CHANGE_WORKFLOW: cancel, hold, restart; read its code, and the values and files in its workflow file.
    EXEC_WORKFLOW: run commands in tasks, reach their ports and files. CHANGE_POOL: settings of a pool. READ_CLUSTER:
    nodes, topology. READ_EVERYTHING: data about all pools, such as metrics. CHANGE_CLUSTER: cluster files, cohorts,
    top-level pools, quotas. OWN_TOKENS, OWN_CREDENTIALS: the user's own. CHANGE_OWN: what all tokens of a user share.
    ACCESS: users.
    """

    CONNECT = "connect"
    LIST_POOLS = "list pools"
    READ_POOL = "read pool"
    SUBMIT = "submit"
    SEND_CODE = "send code"
    READ_WORKFLOW = "read workflow"
    CHANGE_WORKFLOW = "change workflow"
    EXEC_WORKFLOW = "exec workflow"
    CHANGE_SUBPOOLS = "change subpools"
    CHANGE_POOL = "change pool"
    READ_CLUSTER = "read cluster"
    READ_EVERYTHING = "read everything"
    CHANGE_CLUSTER = "change cluster"
    OWN_TOKENS = "own tokens"
    OWN_CREDENTIALS = "own credentials"
    CHANGE_OWN = "change own"
    ACCESS = "access"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role. *pool* None: all pools. ADMIN always covers all pools, POOL_ADMIN always one."""

    kind: RoleKind
    pool: str | None = None

    def __post_init__(self) -> None:
        assert self.kind is not RoleKind.ADMIN or self.pool is None, "an admin of one pool is POOL_ADMIN"
        assert self.kind is not RoleKind.POOL_ADMIN or self.pool is not None, "an admin of all pools is ADMIN"

    def covers(self, pool: str | None) -> bool:
        """Whether the role covers *pool*; None means anything that does not belong to a pool."""
        if self.pool is None or pool is None:
            return self.pool is None
        parent, delimiter, short = pool.partition(SUBPOOL_DELIMITER)
        return parent == self.pool and (not delimiter or name_problem("subpool", short) is None)

    def __str__(self) -> str:
        """``admin``, ``viewer`` or ``user`` for all pools, otherwise ``{pool}-admin``, ``{pool}-user`` or ``{pool}-viewer``."""
        return self.word if self.pool is None else f"{self.pool}-{self.word}"

    @property
    def word(self) -> str:
        """``admin``, ``user`` or ``viewer``: the role without its pool, as in cluster files."""
        return self.kind.value.removeprefix("pool-")


@dataclass(frozen=True, slots=True)
class User:
    """A user. *disabled*: all tokens of the user are invalid; the name stays taken, because logs refer to it.

    *account*: ``issuer#subject`` of a user who signs in through the identity provider; None: a local user with tokens.
    """

    name: str
    grants: tuple[Grant, ...]
    created_at: float
    disabled: bool = False
    account: str | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(map(str, self.grants))

    @property
    def removed(self) -> bool:
        """Whether the user is disabled and has no roles."""
        return self.disabled and not self.grants


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A role of *user*. *granted_by*: the actor; starts with ``apply by`` if a cluster file granted the role."""

    user: str
    grant: Grant
    granted_at: float
    granted_by: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token, without its secret. *hash*: its SHA-256 in hexadecimal. Times are in seconds since the epoch.

    *roles*: the roles that the token grants, by name; None: all roles of its user.
    """

    id: str
    name: str
    user: str
    hash: str = field(repr=False)
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None
    revoked_at: float | None = None
    description: str = ""
    roles: tuple[str, ...] | None = None

    def gives(self, grants: tuple[Grant, ...]) -> tuple[Grant, ...]:
        """The roles out of *grants*, all roles of its user, that the token grants."""
        return grants if self.roles is None else tuple(each for each in grants if str(each) in self.roles)

    def narrowed(self, grants: tuple[Grant, ...]) -> tuple[str, ...] | None:
        """The token's roles if it does not grant all of *grants*, the roles of its user; otherwise None."""
        return None if self.gives(grants) == grants else self.roles

    def problem(self, now: float) -> str | None:
        """Why the token is not valid at *now*; None if it is."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return None


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings of a user. *pool*: where to submit by default; None: not set. Notification settings have no effect."""

    pool: str | None = None
    email_notification: bool = False
    slack_notification: bool = False

    def default_of(self, pools: Sequence[str]) -> str | None:
        """The default pool if it is one of *pools*, where the user may submit; else the only top-level pool of *pools*; else None."""
        if self.pool in pools:
            return self.pool
        tops = [pool for pool in pools if SUBPOOL_DELIMITER not in pool]
        return tops[0] if len(tops) == 1 else None


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in browser. *hash*: SHA-256 of its cookie in hexadecimal. *seen_at*: roughly when it last sent a request.

    *token*: id of the access token that started the session and also ends it; "" for the user of `up` and after a sign-in.
    *roles*: the roles from the identity provider; None: it was not used.
    """

    hash: str = field(repr=False)
    user: str
    token: str
    roles: tuple[str, ...] | None
    created_at: float
    seen_at: float
    ends_at: float


DEV_LOGIN = "dev login"
"""Used as token id for a user of this machine who logged in by name alone."""
SPOKEN_FOR = "spoken for"
"""Used as token id if the user who started the server with `up` acts on behalf of another user."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """The roles that the identity provider gave a user through their groups; valid until *ends_at*."""

    grants: tuple[Grant, ...]
    ends_at: float


@dataclass(frozen=True, slots=True)
class Identity:
    """The user who sends a request. *token*: id of the token; empty for the token of `up` and after a sign-in; else DEV_LOGIN
    or SPOKEN_FOR.

    *speaks_for_others*: this user started the server with `up` and may act on behalf of other users.
    *sign_in*: set after a sign-in through the identity provider; *grants* includes its roles.
    *narrowed*: the roles of a token that does not grant all roles of its user; None: not restricted.
    """

    user: str
    grants: tuple[Grant, ...]
    token: str = ""
    speaks_for_others: bool = False
    sign_in: SignIn | None = None
    narrowed: tuple[str, ...] | None = None

    @property
    def admin(self) -> bool:
        return any(grant.kind is RoleKind.ADMIN for grant in self.grants)

    @property
    def keeps_tokens(self) -> bool:
        """False for a user without a token: a new token would outlive the permission to act without one."""
        return self.token not in (DEV_LOGIN, SPOKEN_FOR)

    def reaches(self, roles: Collection[str] | None) -> bool:
        """Whether this identity may end or change something of its user that grants *roles*; None: all roles of the user."""
        return self.narrowed is None or self.admin or (roles is not None and set(roles) <= set(self.narrowed))


# ---------------------------------------------------------------- the rule

_READERS = frozenset(RoleKind)
_WORKERS = frozenset({RoleKind.ADMIN, RoleKind.POOL_ADMIN, RoleKind.POOL_USER})
_MANAGERS = frozenset({RoleKind.ADMIN, RoleKind.POOL_ADMIN})
_ADMINS = frozenset({RoleKind.ADMIN})

OF_A_POOL: Mapping[Permission, frozenset[RoleKind]] = {
    Permission.READ_POOL: _READERS,
    Permission.SUBMIT: _WORKERS,
    Permission.READ_WORKFLOW: _READERS,
    Permission.CHANGE_WORKFLOW: _MANAGERS,
    Permission.EXEC_WORKFLOW: _MANAGERS,
    Permission.CHANGE_SUBPOOLS: _MANAGERS,
    Permission.CHANGE_POOL: _MANAGERS,
}
"""Permissions that apply to one pool, with the kinds of roles on it that grant them. If no pool is given, only a role on all
pools does.
"""

_OF_ALL_POOLS: Mapping[Permission, frozenset[RoleKind]] = {
    Permission.READ_EVERYTHING: frozenset({RoleKind.ADMIN, RoleKind.VIEWER}),
    Permission.CHANGE_CLUSTER: _ADMINS,
    Permission.ACCESS: _ADMINS,
}
"""The same for permissions that apply to no pool."""


OF_OWNERS = frozenset({Permission.CHANGE_WORKFLOW, Permission.EXEC_WORKFLOW})
"""Permissions that users who may submit have on their own workflows."""


def allows(identity: Identity, permission: Permission, *, pool: str | None = None, owner: str | None = None) -> bool:
    """Whether *identity* has *permission*. *pool*: full name of the pool. *owner*: owner of the workflow or token."""
    if permission in (Permission.CONNECT, Permission.LIST_POOLS, Permission.OWN_CREDENTIALS):
        return True
    if permission is Permission.OWN_TOKENS:
        return identity.keeps_tokens
    if permission is Permission.CHANGE_OWN:
        return identity.reaches(None)
    if permission is Permission.READ_CLUSTER:
        return bool(identity.grants)
    if permission is Permission.SEND_CODE:
        return any(grant.kind in _WORKERS for grant in identity.grants)
    mine = owner is not None and owner == identity.user
    if permission is Permission.ACCESS and mine:
        return True
    if permission in _OF_ALL_POOLS:
        return any(grant.kind in _OF_ALL_POOLS[permission] and grant.covers(None) for grant in identity.grants)
    enough = _WORKERS if permission in OF_OWNERS and mine else OF_A_POOL[permission]
    return any(grant.kind in enough and grant.covers(pool) for grant in identity.grants)


# ---------------------------------------------------------------- names

_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BY_WORD = {Grant(kind).word: kind for kind in (RoleKind.ADMIN, RoleKind.VIEWER, RoleKind.POOL_USER)}


def role_named(text: str) -> Grant:
    """The role with the name *text*, as `Grant.__str__` prints it. Raises InvalidInput."""
    pool, dash, word = text.rpartition("-")
    if word in _BY_WORD:
        return role_on(_BY_WORD[word], pool if dash else None)
    raise InvalidInput.one(
        f"{text!r} is not a role: use admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user",
        "role",
    )


def role_on(kind: RoleKind, pool: str | None) -> Grant:
    """The role *kind* on *pool*; ADMIN on one pool becomes POOL_ADMIN. Raises InvalidInput unless *pool* can be the name of a
    top-level pool (rule S5).
    """
    if pool is None:
        return Grant(RoleKind.ADMIN if kind is RoleKind.POOL_ADMIN else kind)
    parent, delimiter, _ = pool.partition(SUBPOOL_DELIMITER)
    if delimiter:
        raise InvalidInput.one(
            f"{pool!r} is a subpool, but roles are granted on top-level pools and cover their subpools. Grant it on {parent!r}",
            "role",
        )
    InvalidInput.check(name_problem("pool", pool), "role")
    return Grant(RoleKind.POOL_ADMIN if kind is RoleKind.ADMIN else kind, pool)


def user_problem(name: str) -> str | None:
    """Why *name* is not a valid user name; None if it is."""
    if len(name) > LONGEST_USER_NAME:
        return f"user name is too long ({len(name)} characters, maximum {LONGEST_USER_NAME})"
    if not _USER.fullmatch(name):
        return (
            f"user name {name!r} must be letters, digits and '.', '_', '@', '+', '-', and start with a letter or digit"
        )
    return None


def token_name_problem(name: str) -> str | None:
    """Why *name* is not a valid token name; None if it is."""
    if len(name) > LONGEST_TOKEN_NAME:
        return f"token name is too long ({len(name)} characters, maximum {LONGEST_TOKEN_NAME})"
    if not _TOKEN.fullmatch(name):
        return f"token name {name!r} must be letters, digits and '.', '_', '-', and start with a letter or digit"
    return None
