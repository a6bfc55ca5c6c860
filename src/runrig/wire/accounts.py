"""Users, roles and tokens in the format of the osmo client."""

from datetime import datetime

from pydantic import Field

from runrig.wire.base import Answer, Request, example

_TIME = "2026-01-31T12:00:00"


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
