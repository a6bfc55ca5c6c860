"""Limits of pools (rule W6)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("user_waiting", WHOLE, nullable=True))
        pools.add_column(sa.Column("gpus_per_workflow", WHOLE, nullable=True))
