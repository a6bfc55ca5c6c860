"""Limits of users over all pools (rule W6)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE, WORDS

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.create_table(
        "limits",
        sa.Column("user", WORDS, nullable=False),
        sa.Column("gpus", WHOLE, nullable=True),
        sa.Column("waiting", WHOLE, nullable=True),
        sa.Column("gpus_per_workflow", WHOLE, nullable=True),
        sa.PrimaryKeyConstraint("user", name=op.f("pk_limits")),
    )
