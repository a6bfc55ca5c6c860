"""Paused pools (rule S8)."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

WORDS = sa.String().with_variant(sa.String(collation="C"), "postgresql")
PROSE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("paused_by", WORDS, nullable=True))
        pools.add_column(sa.Column("paused_since", sa.DateTime(timezone=True), nullable=True))
        pools.add_column(sa.Column("paused_reason", PROSE, nullable=False, server_default=""))
