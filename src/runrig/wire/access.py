"""Users, roles, tokens, and the login of the osmo client."""

from typing import Any

from pydantic import Field

from runrig.domain.access import Profile
from runrig.wire.base import Answer, Request, edits_of, example


class UserCreateRequest(Request):
    model_config = example({"name": "alice", "roles": ["vision-user"]})

    name: str
    roles: list[str] = Field(default_factory=list)


class UserEditRequest(Request):
    """*disabled*: the user's tokens stop working; the user's workflows keep running."""

    model_config = example({"disabled": True})

    disabled: bool


class RoleGrantRequest(Request):
    model_config = example({"user": "alice", "role": "vision-user"})

    user: str
    role: str


class LoginAnswer(Answer):
    """Where the osmo client sends a browser, and where it sends the result."""

    model_config = example(
        {
            "device_endpoint": "https://runrig.example.org/api/auth/oidc/device",
            "device_client_id": "runrig",
            "browser_endpoint": "https://login.example.org/authorize",
            "browser_client_id": "runrig",
            "token_endpoint": "https://runrig.example.org/api/auth/oidc/token",
            "logout_endpoint": None,
        }
    )

    device_endpoint: str | None = None
    device_client_id: str | None = None
    browser_endpoint: str | None = None
    browser_client_id: str | None = None
    token_endpoint: str | None = None
    logout_endpoint: str | None = None


class DeviceAnswer(Answer):
    """RFC 8628: the user opens *verification_uri* and enters *user_code*; *device_code* is for the token endpoint.
    Times in seconds.
    """

    model_config = example(
        {
            "device_code": "of-43-characters",
            "user_code": "BDWP-HQPK",
            "verification_uri": "https://login.example.org/device",
            "verification_uri_complete": None,
            "expires_in": 600,
            "interval": 5,
        }
    )

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: int
    interval: int


class OAuthTokenAnswer(Answer):
    """*id_token*: of this server, used as a bearer token. *refresh_token*: of the provider; null: the token cannot be
    renewed.
    """

    model_config = example({"id_token": "a-signed-token", "refresh_token": "of-the-provider", "expires_in": 900})

    id_token: str
    refresh_token: str | None
    expires_in: int


class ExchangeRequest(Request):
    model_config = example({"token": "the-43-characters-of-an-access-token"})

    token: str = Field(max_length=1000)


class ExchangeAnswer(Answer):
    """*token*: a JWT, to be sent as a bearer token until *expires_at* (seconds since 1970)."""

    model_config = example({"token": "HEADER.CLAIMS.SIGNATURE", "expires_at": 1769860800, "error": None})

    token: str
    expires_at: int
    error: str | None = None


_Profile = edits_of(Profile)


class ProfileRequest(_Profile):  # type: ignore[misc, valid-type]
    """Missing fields keep their values. Notification settings are stored and shown, but no notifications are sent."""

    model_config = example({"pool": "vision"})


class ProfileAnswer(Answer):
    """The user of the request. *pools*: those to which the user may submit; *profile.pool*: the default pool, else the
    only top-level pool.

    *token*: the token of the request, null for that of `up`.
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
