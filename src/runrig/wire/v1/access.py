"""Users, roles and tokens of our own door, and who asks."""

from datetime import datetime

from runrig.wire.base import Request, example
from runrig.wire.v1.base import Page, Shown, Tagged

_TIME = "2026-01-31T12:00:00Z"


class Token(Tagged):
    """*state*: good, expired, revoked; the token of a disabled user does not work either way.  *expires_at* null: never.

    *roles*: those of its user that it gives, as long as the user has them; null: all.
    """

    model_config = example(
        {
            "name": "laptop",
            "user": "alice",
            "description": "at home",
            "roles": ["vision-user"],
            "state": "good",
            "created_at": _TIME,
            "expires_at": "2026-05-01T12:00:00Z",
            "last_used_at": None,
            "revoked_at": None,
        }
    )

    name: str
    user: str
    description: str
    roles: list[str] | None
    state: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class TokenPage(Page):
    """Oldest first."""

    model_config = example({"items": [Token.example()], "next_cursor": None})

    items: list[Token]


class TokenMade(Token):
    """*token* is shown once and stored nowhere; for ten minutes, the same request with the same Idempotency-Key gets it again."""

    model_config = example(Token.example() | {"token": "the-43-characters-that-are-shown-only-this-once"})

    token: str


class TokenEdit(Request):
    """A field that is absent keeps its value.  *roles*: those of its user that it gives, null: all."""

    model_config = example({"roles": ["vision-user"]})

    description: str = ""
    roles: list[str] | None = None


class User(Tagged):
    """*roles*: admin, viewer, user (of all pools), or those of a pool: vision-admin, vision-user, vision-viewer."""

    model_config = example({"name": "alice", "roles": ["vision-user"], "created_at": _TIME, "disabled": False})

    name: str
    roles: list[str]
    created_at: datetime
    disabled: bool


class UserPage(Page):
    """Users by name."""

    model_config = example({"items": [User.example()], "next_cursor": None})

    items: list[User]


class Role(Tagged):
    """*role* is a name such as vision-user, *pool* null if it is one on all pools.  *granted_by*: who, or `apply by` who."""

    model_config = example(
        {"user": "alice", "role": "vision-user", "pool": "vision", "granted_at": _TIME, "granted_by": "apply by root"}
    )

    user: str
    role: str
    pool: str | None
    granted_at: datetime
    granted_by: str


class RolePage(Page):
    """Roles in order of user, then of role."""

    model_config = example({"items": [Role.example()], "next_cursor": None})

    items: list[Role]


class AccessEvent(Shown):
    """*actor* did it, *user* is whom it is about, *subject* the name of the role or token."""

    model_config = example(
        {
            "number": 7,
            "time": _TIME,
            "actor": "root",
            "what": "role granted",
            "user": "alice",
            "subject": "vision-user",
        }
    )

    number: int
    time: datetime
    actor: str
    what: str
    user: str
    subject: str


class AccessEventPage(Page):
    """Newest first."""

    model_config = example({"items": [AccessEvent.example()], "next_cursor": None})

    items: list[AccessEvent]


class MyToken(Shown):
    """*expires_at* null: never.  That of a sign-in at the provider of identities is called `sign-in`."""

    model_config = example({"name": "laptop", "expires_at": "2026-05-01T12:00:00Z"})

    name: str
    expires_at: datetime | None


class Me(Shown):
    """Who asks.  *pools*: those to which this user may submit.  *default_pool*: for what names no pool, the one that the user set, else the
    only one that is no subpool; null if there are several or none.  *token*: the one that was sent, null for that of `up`.
    """

    model_config = example(
        {"user": "alice", "roles": ["vision-user"], "pools": ["vision", "vision--a"], "default_pool": "vision"}
        | {"token": MyToken.example()}
    )

    user: str
    roles: list[str]
    pools: list[str]
    default_pool: str | None
    token: MyToken | None
