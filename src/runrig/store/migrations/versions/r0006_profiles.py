"""Profiles: a user's default pool and notification settings."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "profiles",
        sa.Column("user", TEXT, nullable=False),
        sa.Column("pool", TEXT, nullable=True),
        sa.Column("email_notification", sa.Boolean(), nullable=False),
        sa.Column("slack_notification", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("user", name=op.f("pk_profiles")),
    )
