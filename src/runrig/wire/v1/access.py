"""Requests about users, roles and tokens, and about your own settings, credentials and notices."""

from typing import Annotated, Literal

from pydantic import Field

from runrig.domain.access import DEFAULT_EXPIRY_S
from runrig.wire.base import Number, Request, Whole, example

CredentialType = Literal["GENERIC", "REGISTRY", "DATA"]


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


class TokenEdit(Request):
    """Missing fields keep their values. *roles*: the roles of its user that the token grants; null: all."""

    model_config = example({"roles": ["vision-user"]})

    description: str = ""
    roles: list[str] | None = None


class TokenCreateRequest(TokenEdit):
    """*expires_in_s*: seconds from now, null: never. *roles*: the roles of its user that it grants, null: all."""

    model_config = example(
        {"name": "laptop", "expires_in_s": DEFAULT_EXPIRY_S, "description": "at home", "roles": ["vision-user"]}
    )

    name: str
    expires_in_s: Annotated[Number | None, Field(allow_inf_nan=False)] = DEFAULT_EXPIRY_S


class MeEdit(Request):
    """*default_pool*: the pool for workflows that name none; null: removed."""

    model_config = example({"default_pool": "vision"})

    default_pool: str | None


class CredentialRequest(Request):
    """*values*: by key. REGISTRY, for pulling images on Kubernetes, requires `auth` and can have `registry` and
    `username`. DATA requires `access_key_id`, `access_key` and `endpoint`, and can have `region`, `override_url` and
    `addressing_style`. GENERIC can have any.
    """

    model_config = example({"type": "GENERIC", "values": {"api_key": "(the key)"}})

    type: CredentialType = "GENERIC"
    values: dict[str, str] = Field(repr=False)


class NoticesRequest(Request):
    """*to*: an https address, or a mail address if the server sends mail. *when*: what to send notices of. *min_run_s*: no
    notice of the end of a workflow that ran for less.
    """

    model_config = example({"to": "https://hooks.example.org/runrig", "when": ["fail", "preempt"], "min_run_s": 600})

    to: str
    when: list[Literal["start", "done", "fail", "preempt"]]
    min_run_s: Whole = 0
