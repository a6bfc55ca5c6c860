"""Users, roles, tokens, and the login of the reference client."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StrictBool

from runrig.wire.base import Answer, Request, example

DEFAULT_EXPIRY_S = 90 * 86_400.0


class TokenAnswer(Answer):
    """*expires_at* null: never.  *state*: good, expired, revoked; the token of a disabled user does not work either way."""

    model_config = example(
        {
            "name": "laptop",
            "user": "alice",
            "state": "good",
            "created_at": "2026-01-31T12:00:00",
            "expires_at": "2026-05-01T12:00:00",
            "last_used_at": None,
            "revoked_at": None,
        }
    )

    name: str
    user: str
    state: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class TokensAnswer(Answer):
    model_config = example({"tokens": [TokenAnswer.example()]})

    tokens: list[TokenAnswer]


class TokenCreateRequest(Request):
    """*expires_in_s*: seconds from now, null: never."""

    model_config = example({"name": "laptop", "expires_in_s": DEFAULT_EXPIRY_S})

    name: str
    expires_in_s: Annotated[float | None, Field(allow_inf_nan=False)] = DEFAULT_EXPIRY_S


class TokenMadeAnswer(TokenAnswer):
    """*token* is shown only once, and stored nowhere."""

    model_config = example(TokenAnswer.example() | {"token": "the-43-characters-that-are-told-this-once-only"})

    token: str


class UserAnswer(Answer):
    """*roles*: admin, viewer, user (of all pools), or those of a pool: vision-admin, vision-user, vision-viewer."""

    model_config = example(
        {"name": "alice", "roles": ["vision-user"], "created_at": "2026-01-31T12:00:00", "disabled": False}
    )

    name: str
    roles: list[str]
    created_at: datetime
    disabled: bool


class UsersAnswer(Answer):
    model_config = example({"users": [UserAnswer.example()]})

    users: list[UserAnswer]


class UserCreateRequest(Request):
    model_config = example({"name": "alice", "roles": ["vision-user"]})

    name: str
    roles: list[str] = Field(default_factory=list)


class UserEditRequest(Request):
    """*disabled*: no token of the user works; the work of the user goes on."""

    model_config = example({"disabled": True})

    disabled: bool


class RoleAnswer(Answer):
    """*role* is a name such as vision-user, *pool* null if it is one on all pools.  *granted_by*: who, or `apply by` who."""

    model_config = example(
        {
            "user": "alice",
            "role": "vision-user",
            "pool": "vision",
            "granted_at": "2026-01-31T12:00:00",
            "granted_by": "apply by root",
        }
    )

    user: str
    role: str
    pool: str | None
    granted_at: datetime
    granted_by: str


class RolesAnswer(Answer):
    model_config = example({"roles": [RoleAnswer.example()]})

    roles: list[RoleAnswer]


class RoleGrantRequest(Request):
    model_config = example({"user": "alice", "role": "vision-user"})

    user: str
    role: str


class AccessEventAnswer(Answer):
    """*actor* did it, *user* is whom it is about, *subject* the name of the role, of the token, or of the task that was entered."""

    model_config = example(
        {
            "number": 7,
            "time": "2026-01-31T12:00:00",
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


class AccessEventsAnswer(Answer):
    """The newest first.  *next*: the number to send as *before* for the next page; null at the end."""

    model_config = example({"events": [AccessEventAnswer.example()], "next": None})

    events: list[AccessEventAnswer]
    next: int | None = None


class LoginAnswer(Answer):
    """Where a client logs in by other means than a token: nowhere."""

    model_config = example(
        {
            "device_endpoint": None,
            "device_client_id": None,
            "browser_endpoint": None,
            "browser_client_id": None,
            "token_endpoint": None,
            "logout_endpoint": None,
        }
    )

    device_endpoint: str | None = None
    device_client_id: str | None = None
    browser_endpoint: str | None = None
    browser_client_id: str | None = None
    token_endpoint: str | None = None
    logout_endpoint: str | None = None


class ExchangeRequest(Request):
    model_config = example({"token": "the-43-characters-of-an-access-token"})

    token: str = Field(max_length=1000)


class ExchangeAnswer(Answer):
    """*token*: a JWT, to be sent as a bearer until *expires_at* (seconds since 1970)."""

    model_config = example({"token": "HEADER.CLAIMS.SIGNATURE", "expires_at": 1769860800, "error": None})

    token: str
    expires_at: int
    error: str | None = None


class ProfileRequest(Request):
    """What is absent stays.  Notifications are kept and shown; none is ever sent."""

    model_config = example({"pool": "vision"})

    pool: str | None = None
    email_notification: StrictBool | None = None
    slack_notification: StrictBool | None = None


class ProfileAnswer(Answer):
    """Who asks.  *pools*: those to which this user may submit; *profile.pool*: the one that this user set, else the only one at the top.

    *token*: the one that was sent, null for that of `up`.
    """

    model_config = example(
        {
            "profile": {
                "username": "alice",
                "email_notification": False,
                "slack_notification": False,
                "pool": "vision",
            },
            "roles": ["osmo-vision-user"],
            "pools": ["vision", "vision--a"],
            "token": {"name": "laptop", "expires_at": "2026-05-01T12:00:00"},
        }
    )

    profile: dict[str, Any]
    roles: list[str]
    pools: list[str]
    token: dict[str, Any] | None = None
