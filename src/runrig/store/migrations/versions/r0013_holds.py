"""Workflows on hold (rule W3)."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("workflows") as workflows:
        workflows.add_column(sa.Column("held_by", TEXT, nullable=True))
        workflows.add_column(sa.Column("held_since", sa.DateTime(timezone=True), nullable=True))
