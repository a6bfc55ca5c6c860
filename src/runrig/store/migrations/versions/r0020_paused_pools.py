"""Paused pools (rule S8)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE, WORDS

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("paused_by", WORDS, nullable=True))
        pools.add_column(sa.Column("paused_since", sa.DateTime(timezone=True), nullable=True))
        pools.add_column(sa.Column("paused_reason", PROSE, nullable=False, server_default=""))
