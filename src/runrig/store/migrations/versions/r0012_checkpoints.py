"""The state of the cluster after some revisions."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cluster_at", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.LargeBinary(), nullable=True),
        sa.Column("gangs", sa.LargeBinary(), nullable=False),
        sa.Column("firm", WHOLE, nullable=False),
        sa.Column("low", WHOLE, nullable=False),
        sa.Column("waiting", WHOLE, nullable=False),
        sa.Column("preempted", WHOLE, nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_checkpoints")),
    )
