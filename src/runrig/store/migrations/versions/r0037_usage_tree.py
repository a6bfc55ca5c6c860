"""Sums of usage of pools with their subpools."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.create_table(
        "usage_tree",
        sa.Column("hours", WHOLE, autoincrement=False, nullable=False),
        sa.Column("begin", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("quota", "drawn", "borrowed", "lent")),
        sa.PrimaryKeyConstraint("hours", "begin", "key", name=op.f("pk_usage_tree")),
        sqlite_with_rowid=False,
    )
