"""Accounts of users at the identity provider."""

from alembic import op

from runrig.store.migrations.types import WORDS, add, optional

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    add("users", *optional(account=WORDS))
    op.create_index(None, "users", ["account"], unique=True)
