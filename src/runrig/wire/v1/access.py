"""New tokens, and edits of tokens and of your own settings."""

from typing import Annotated

from pydantic import Field

from runrig.domain.access import DEFAULT_EXPIRY_S
from runrig.wire.base import Number, Request, example


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
