"""The limit of GPUs of one user in a pool (rule W6)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("user_gpus", WHOLE, nullable=True))
