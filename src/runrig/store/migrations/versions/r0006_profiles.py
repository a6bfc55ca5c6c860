"""Profiles: a user's default pool and notification settings."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WORDS

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "profiles",
        sa.Column("user", WORDS, nullable=False),
        sa.Column("pool", WORDS, nullable=True),
        sa.Column("email_notification", sa.Boolean(), nullable=False),
        sa.Column("slack_notification", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("user", name=op.f("pk_profiles")),
    )
