"""Who may do what: users, their tokens and roles, and the one rule that decides (law S5).

A role on a pool covers the pool and its subpools, matched by the exact name or ``pool--subpool``, never by prefix: a role on
`team` gives no access to `team2`.
"""

import enum
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from runrig.domain.errors import InvalidInput
from runrig.domain.pools import SUBPOOL_DELIMITER, name_problem

LONGEST_USER_NAME = 128
LONGEST_TOKEN_NAME = 64


class Kind(enum.Enum):
    """ADMIN may do everything, VIEWER read everything, POOL_ADMIN manage a pool and its subpools, POOL_USER submit to them."""

    ADMIN = "admin"
    VIEWER = "viewer"
    POOL_ADMIN = "pool-admin"
    POOL_USER = "pool-user"


class Permission(enum.Enum):
    """What a route needs.

    CONNECT: any valid token.  LIST_POOLS: list the pools that the user may see.  CHANGE_WORKFLOW: cancel, hold, restart.
    EXEC_WORKFLOW: run commands in its tasks, reach their ports and files.  CHANGE_POOL: settings of a pool.
    READ_CLUSTER: nodes, topology.  READ_EVERYTHING: data about all pools at once, such as metrics.  CHANGE_CLUSTER: cluster files,
    cohorts, top-level pools, quotas.  OWN_TOKENS, OWN_CREDENTIALS: the user's.  CHANGE_OWN: all that a user's tokens share.  ACCESS: users.
    """

    CONNECT = "connect"
    LIST_POOLS = "list pools"
    READ_POOL = "read pool"
    SUBMIT = "submit"
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
    """A role.  *pool* None: on all pools.  ADMIN is always on all pools, POOL_ADMIN always on one."""

    kind: Kind
    pool: str | None = None

    def __post_init__(self) -> None:
        assert self.kind is not Kind.ADMIN or self.pool is None, "an admin of one pool is POOL_ADMIN"
        assert self.kind is not Kind.POOL_ADMIN or self.pool is not None, "an admin of all pools is ADMIN"

    def covers(self, pool: str | None) -> bool:
        """True if the role covers *pool*; None stands for things that belong to no pool."""
        if self.pool is None or pool is None:
            return self.pool is None
        parent, delimiter, short = pool.partition(SUBPOOL_DELIMITER)
        return parent == self.pool and (not delimiter or name_problem("subpool", short) is None)

    def __str__(self) -> str:
        """The role's name: ``admin``, ``viewer``, ``user`` for all pools, else ``{pool}-admin``, ``{pool}-user``, ``{pool}-viewer``."""
        return self.word if self.pool is None else f"{self.pool}-{self.word}"

    @property
    def word(self) -> str:
        """``admin``, ``user`` or ``viewer``, as cluster files have it beside the pool."""
        return _WORDS[self.kind]


_WORDS: Mapping[Kind, str] = {
    Kind.ADMIN: "admin",
    Kind.VIEWER: "viewer",
    Kind.POOL_ADMIN: "admin",
    Kind.POOL_USER: "user",
}


@dataclass(frozen=True, slots=True)
class User:
    """*disabled*: no token of the user works.  The name stays taken, since logs refer to it.

    *account*: ``issuer#subject`` of who signs in at the provider of identities; None: a local user, who has tokens.
    """

    name: str
    grants: tuple[Grant, ...]
    created_at: float
    disabled: bool = False
    account: str | None = None

    @property
    def removed(self) -> bool:
        """Nothing is left but the name."""
        return self.disabled and not self.grants


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A role of *user*.  *granted_by*: the actor; it begins with ``apply by`` if a cluster file granted the role."""

    user: str
    grant: Grant
    granted_at: float
    granted_by: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    """*hash*: SHA-256 of the token in hexadecimal; the token itself is not stored.  Times: seconds since the epoch.

    *roles*: the names of those roles of the user that it gives; None: all that the user has.
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
        """The roles that it gives, out of *grants*, which its user has."""
        return grants if self.roles is None else tuple(each for each in grants if str(each) in self.roles)

    def narrowed(self, grants: tuple[Grant, ...]) -> tuple[str, ...] | None:
        """Its roles, if it lacks one of *grants*, which its user has; None: it gives them all."""
        return None if self.gives(grants) == grants else self.roles

    def problem(self, now: float) -> str | None:
        """Why the token is no longer valid; None if it still is."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return None


@dataclass(frozen=True, slots=True)
class Profile:
    """What a user has set.  *pool*: where to submit if no pool is named; None: not set.  Notifications are kept and never sent."""

    pool: str | None = None
    email_notification: bool = False
    slack_notification: bool = False

    def default_of(self, pools: Sequence[str]) -> str | None:
        """The pool that was set, if the user may submit to it (*pools*); else the only one that is no subpool; None if there is none."""
        if self.pool in pools:
            return self.pool
        tops = [pool for pool in pools if SUBPOOL_DELIMITER not in pool]
        return tops[0] if len(tops) == 1 else None


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that is signed in.  *hash*: SHA-256 of its cookie, in hexadecimal.  *seen_at*: about when it last asked.

    *token*: the id of the access token with which it began and with which it ends; "" for the owner of `up` and after a sign-in.
    *roles*: what the provider of identities gave; None: there was none.
    """

    hash: str = field(repr=False)
    user: str
    token: str
    roles: tuple[str, ...] | None
    created_at: float
    seen_at: float
    ends_at: float


class AccessEventKind(enum.Enum):
    USER_CREATED = "user created"
    USER_DISABLED = "user disabled"
    USER_ENABLED = "user enabled"
    TOKEN_CREATED = "token created"  # noqa: S105 - no token
    TOKEN_CHANGED = "token changed"  # noqa: S105
    TOKEN_REVOKED = "token revoked"  # noqa: S105
    ROLE_GRANTED = "role granted"
    ROLE_REVOKED = "role revoked"
    SIGNED_IN = "signed in"
    EXEC = "exec"
    PORT_FORWARD = "port-forward"
    RSYNC = "rsync"
    CREDENTIAL_SET = "credential set"
    CREDENTIAL_DELETED = "credential deleted"
    CREDENTIALS_RESEALED = "credentials resealed"


@dataclass(frozen=True, slots=True)
class AccessEvent:
    """An entry of the audit trail of access, which is kept for ever.  *actor* changed something about *user*, or entered a task of theirs.

    *subject*: the name of the role, token or task; empty if the user itself changed.  *number*: its position in the trail, from 1.
    """

    number: int
    time: float
    actor: str
    kind: AccessEventKind
    user: str
    subject: str = ""


DEV_LOGIN = "dev login"
"""Stands for the id of a token where a user of this machine was let in by name alone."""
SPOKEN_FOR = "spoken for"
"""Stands for the id of a token where whoever started the server with `up` acts in the name of another user."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """What the provider of identities said of a user: the roles of the groups, good until *ends_at*."""

    grants: tuple[Grant, ...]
    ends_at: float


@dataclass(frozen=True, slots=True)
class Identity:
    """The user who makes a request.  *token*: id of the token used; empty for the token of `up` and after a sign-in, DEV_LOGIN or
    SPOKEN_FOR where there is none.

    *speaks_for_others*: this user started the server with `up` and may act in the name of other users.
    *sign_in*: for who signed in at the provider; its roles are among *grants*.
    *narrowed*: the roles of a token that does not give all roles of its user; None: everything that the user may do.
    """

    user: str
    grants: tuple[Grant, ...]
    token: str = ""
    speaks_for_others: bool = False
    sign_in: SignIn | None = None
    narrowed: tuple[str, ...] | None = None

    @property
    def admin(self) -> bool:
        return any(grant.kind is Kind.ADMIN for grant in self.grants)

    @property
    def keeps_tokens(self) -> bool:
        """False for who came without one: a token would outlive the permission to do so."""
        return self.token not in (DEV_LOGIN, SPOKEN_FOR)

    def reaches(self, roles: Collection[str] | None) -> bool:
        """True if this identity may end or change what a token of its user has that gives *roles*; None: all of the user's."""
        return self.narrowed is None or self.admin or (roles is not None and set(roles) <= set(self.narrowed))


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
    Permission.EXEC_WORKFLOW: _MANAGERS,
    Permission.CHANGE_SUBPOOLS: _MANAGERS,
    Permission.CHANGE_POOL: _MANAGERS,
    Permission.READ_CLUSTER: _READERS,
    Permission.READ_EVERYTHING: frozenset({Kind.ADMIN, Kind.VIEWER}),
    Permission.CHANGE_CLUSTER: _ADMINS,
    Permission.ACCESS: _ADMINS,
}
"""The kinds of roles on the pool that are enough for each permission."""

OF_A_POOL = frozenset(
    {
        Permission.READ_POOL,
        Permission.SUBMIT,
        Permission.READ_WORKFLOW,
        Permission.CHANGE_WORKFLOW,
        Permission.EXEC_WORKFLOW,
        Permission.CHANGE_SUBPOOLS,
        Permission.CHANGE_POOL,
    }
)
"""Permissions that are about one pool; if no pool is given, only a role on all pools is enough."""


OF_OWNERS = frozenset({Permission.CHANGE_WORKFLOW, Permission.EXEC_WORKFLOW})
"""Permissions on one's own work, for which the right to submit is enough."""


def allows(
    identity: Identity,
    permission: Permission,
    *,
    pool: str | None = None,
    parent: str | None = None,
    owner: str | None = None,
) -> bool:
    """True if *identity* has *permission*.

    *pool*: full name of the pool concerned.  *parent*: parent of a subpool that does not exist yet.  *owner*: the user whose
    workflow or tokens are concerned.
    """
    if permission in (Permission.CONNECT, Permission.LIST_POOLS, Permission.OWN_CREDENTIALS):
        return True
    if permission is Permission.OWN_TOKENS:
        return identity.keeps_tokens
    if permission is Permission.CHANGE_OWN:
        return identity.reaches(None)
    if permission is Permission.READ_CLUSTER:
        return bool(identity.grants)
    mine = owner is not None and owner == identity.user
    if permission is Permission.ACCESS and mine:
        return True
    enough = _WORKERS if permission in OF_OWNERS and mine else _ENOUGH[permission]
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
    """The role named *text*, as `Grant.__str__` writes it.  Raises InvalidInput."""
    if text in _GLOBAL:
        return _GLOBAL[text]
    for suffix, kind in _SUFFIXES:
        pool = text.removesuffix(suffix)
        if pool != text:
            return role_on(kind, pool)
    raise InvalidInput.one(
        f"{text!r} is not a role: write admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user",
        "role",
    )


def role_on(kind: Kind, pool: str | None) -> Grant:
    """The role *kind* on *pool*; ADMIN on one pool becomes POOL_ADMIN.

    Raises InvalidInput if *pool* cannot be the name of a top-level pool (law S5).
    """
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
    """Why *name* cannot be a user name; None if it can."""
    if len(name) > LONGEST_USER_NAME:
        return f"user name of {len(name)} characters is too long: at most {LONGEST_USER_NAME}"
    if not _USER.fullmatch(name):
        return (
            f"user name {name!r} must be letters, digits and '.', '_', '@', '+', '-', and start with a letter or digit"
        )
    return None


def token_name_problem(name: str) -> str | None:
    """Why *name* cannot be a token name; None if it can."""
    if len(name) > LONGEST_TOKEN_NAME:
        return f"token name of {len(name)} characters is too long: at most {LONGEST_TOKEN_NAME}"
    if not _TOKEN.fullmatch(name):
        return f"token name {name!r} must be letters, digits and '.', '_', '-', and start with a letter or digit"
    return None
