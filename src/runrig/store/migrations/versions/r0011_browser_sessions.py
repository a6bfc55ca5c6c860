"""Browser sessions."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WORDS

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "browser_sessions",
        sa.Column("hash", WORDS, nullable=False),
        sa.Column("user", WORDS, nullable=False),
        sa.Column("token", WORDS, nullable=False),
        sa.Column("roles", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_browser_sessions")),
    )
