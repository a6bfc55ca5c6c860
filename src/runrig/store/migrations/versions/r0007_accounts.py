"""Accounts of users at the identity provider."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WORDS

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("users", sa.Column("account", WORDS))
    op.create_index(op.f("ix_users_account"), "users", ["account"], unique=True)
