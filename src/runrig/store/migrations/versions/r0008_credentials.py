"""Credentials, sealed."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE, WORDS

revision = "0008"
down_revision = "0007"

ONE_OF = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "credentials",
        sa.Column("user", WORDS, nullable=False),
        sa.Column("name", WORDS, nullable=False),
        sa.Column("kind", ONE_OF, nullable=False),
        sa.Column("keys", sa.JSON(), nullable=False),
        sa.Column("profile", PROSE, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sealed", PROSE, nullable=False),
        sa.PrimaryKeyConstraint("user", "name", name=op.f("pk_credentials")),
    )
