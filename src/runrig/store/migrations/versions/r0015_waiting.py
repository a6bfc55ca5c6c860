"""Pending gangs at a checkpoint, as changes since the previous one."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "waiting",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("whole", sa.Boolean(), nullable=False),
        sa.Column("workflows", WHOLE, nullable=False),
        sa.Column("gangs", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_waiting")),
    )
