"""The limit of GPUs of one user in a pool (rule W6)."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

WHOLE = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("user_gpus", WHOLE, nullable=True))
