"""Pauses of pools that end by themselves (rule S8)."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("paused_until", sa.DateTime(timezone=True), nullable=True))
