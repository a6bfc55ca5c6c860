"""Edits of tokens."""

from runrig.wire.base import Request, example


class TokenEdit(Request):
    """Fields that are absent keep their values.  *roles*: the roles of its user that the token grants; null: all."""

    model_config = example({"roles": ["vision-user"]})

    description: str = ""
    roles: list[str] | None = None
