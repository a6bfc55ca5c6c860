"""Default and maximum run times of pools, and pools closed to submissions (rules P6, S7)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE, WORDS

revision = "0017"
down_revision = "0015"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("default_run_time_s", sa.Double(), nullable=True))
        pools.add_column(sa.Column("max_run_time_s", sa.Double(), nullable=True))
        pools.add_column(sa.Column("closed_by", WORDS, nullable=True))
        pools.add_column(sa.Column("closed_since", sa.DateTime(timezone=True), nullable=True))
        pools.add_column(sa.Column("closed_reason", PROSE, nullable=False, server_default=""))
