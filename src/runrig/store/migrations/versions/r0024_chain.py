"""The chain of hashes over the log. It begins with the first commit after this migration."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.add_column("events", sa.Column("hash", sa.LargeBinary(), nullable=True))
    op.create_table(
        "leaves",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", WHOLE, autoincrement=False, nullable=False),
        sa.Column("leaf", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("revision", "seq", name=op.f("pk_leaves")),
    )
