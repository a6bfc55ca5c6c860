"""Credentials, sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")
PROSE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ONE_OF = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "credentials",
        sa.Column("user", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", ONE_OF, nullable=False),
        sa.Column("keys", sa.JSON(), nullable=False),
        sa.Column("profile", PROSE, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sealed", PROSE, nullable=False),
        sa.PrimaryKeyConstraint("user", "name", name=op.f("pk_credentials")),
    )
