"""Accounts of users at the identity provider."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("users", sa.Column("account", TEXT))
    op.create_index(op.f("ix_users_account"), "users", ["account"], unique=True)
