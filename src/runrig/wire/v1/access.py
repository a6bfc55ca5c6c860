"""Edits of tokens and of your own settings."""

from runrig.wire.base import Request, example


class TokenEdit(Request):
    """Missing fields keep their values. *roles*: the roles of its user that the token grants; null: all."""

    model_config = example({"roles": ["vision-user"]})

    description: str = ""
    roles: list[str] | None = None


class MeEdit(Request):
    """*default_pool*: the pool for workflows that name none; null: removed."""

    model_config = example({"default_pool": "vision"})

    default_pool: str | None
