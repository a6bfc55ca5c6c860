"""Usage per hour and per day, and how far the log is folded into it."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE, WORDS

revision = "0021"
down_revision = "0020"


TABLES = {
    "usage_work": (("pool", "flavor", "priority", "user"), ("held", "waited", "lost_preempted", "lost_other")),
    "usage_quota": (("pool", "flavor"), ("quota", "drawn", "borrowed", "lent")),
    "usage_flavor": (("flavor",), ("capacity", "down", "free", "idle_asked")),
}


def upgrade() -> None:
    for table, (keys, columns) in TABLES.items():
        op.create_table(
            table,
            sa.Column("hours", WHOLE, autoincrement=False, nullable=False),
            sa.Column("begin", sa.BigInteger(), autoincrement=False, nullable=False),
            *(sa.Column(name, WORDS, nullable=False) for name in keys),
            *(sa.Column(name, sa.BigInteger(), nullable=False) for name in columns),
            sa.PrimaryKeyConstraint("hours", "begin", *keys, name=op.f(f"pk_{table}")),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "usage_cursor",
        sa.Column("id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("version", WHOLE, nullable=False),
        sa.Column("cluster", sa.LargeBinary(), nullable=False),
        sa.Column("gangs", sa.LargeBinary(), nullable=False),
        sa.Column("rest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_cursor")),
    )
