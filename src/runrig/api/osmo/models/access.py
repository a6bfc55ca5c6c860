"""The login, users, roles, tokens and credentials, as the osmo API has them."""

from datetime import datetime
from typing import Any

from pydantic import Field

from runrig.domain.access import Profile
from runrig.wire.base import Answer, Request, edits_of, example

_TIME = "2026-01-31T12:00:00"
_Profile = edits_of(Profile)


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


class AccessTokenAnswer(Answer):
    """*expires_at*: the end of the year 9999 for a token that does not expire, because the client requires a date.
    *roles*: the roles that it grants.
    """

    model_config = example(
        {
            "user_name": "alice",
            "token_name": "laptop",
            "expires_at": "2026-05-01T00:00:00",
            "description": "",
            "roles": ["osmo-vision-user"],
        }
    )

    user_name: str
    token_name: str
    expires_at: datetime
    description: str
    roles: list[str]


class AssignedRoleAnswer(Answer):
    model_config = example({"role_name": "osmo-vision-user", "assigned_by": "root", "assigned_at": _TIME})

    role_name: str
    assigned_by: str
    assigned_at: datetime


class AccessTokenRolesAnswer(Answer):
    """*roles*: when the user got each role that the token grants."""

    model_config = example({"user_name": "alice", "token_name": "laptop", "roles": [AssignedRoleAnswer.example()]})

    user_name: str
    token_name: str
    roles: list[AssignedRoleAnswer]


class AccountAnswer(Answer):
    """*created_by*: null, since only the audit trail has it."""

    model_config = example({"id": "alice", "created_at": _TIME, "created_by": None})

    id: str
    created_at: datetime
    created_by: str | None = None


class AccountsAnswer(Answer):
    """*start_index* counts from 1; *total_results* is the number in all pages."""

    model_config = example(
        {"total_results": 1, "start_index": 1, "items_per_page": 1, "users": [AccountAnswer.example()]}
    )

    total_results: int
    start_index: int
    items_per_page: int
    users: list[AccountAnswer]


class AccountWithRolesAnswer(AccountAnswer):
    model_config = example(AccountAnswer.example() | {"roles": [AssignedRoleAnswer.example()]})

    roles: list[AssignedRoleAnswer]


class AccountCreateRequest(Request):
    model_config = example({"id": "alice", "roles": ["osmo-vision-user"]})

    id: str
    roles: list[str] | None = Field(default=None)


class RoleAssignRequest(Request):
    model_config = example({"role_name": "osmo-vision-user"})

    role_name: str


class RoleAssignmentAnswer(AssignedRoleAnswer):
    model_config = example(AssignedRoleAnswer.example() | {"user_id": "alice"})

    user_id: str


class CredentialAnswer(Answer):
    """*profile*: the registry, or the address of the data; "-" if it has neither."""

    model_config = example({"cred_name": "wandb", "cred_type": "GENERIC", "profile": "-"})

    cred_name: str
    cred_type: str
    profile: str


class CredentialsAnswer(Answer):
    model_config = example({"credentials": [CredentialAnswer.example()]})

    credentials: list[CredentialAnswer]


class GenericCredential(Request):
    model_config = example({"credential": {"api_key": "(the key)"}})

    credential: dict[str, str] = Field(repr=False)


class CredentialSetRequest(Request):
    """Exactly one of the three."""

    model_config = example({"generic_credential": GenericCredential.example()})

    generic_credential: GenericCredential | None = Field(default=None, repr=False)
    registry_credential: dict[str, str] | None = Field(default=None, repr=False)
    data_credential: dict[str, str | None] | None = Field(default=None, repr=False)
