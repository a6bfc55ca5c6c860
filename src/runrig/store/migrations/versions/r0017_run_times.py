"""Default and maximum run times of pools (law P6)."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("default_run_time_s", sa.Double(), nullable=True))
        pools.add_column(sa.Column("max_run_time_s", sa.Double(), nullable=True))
