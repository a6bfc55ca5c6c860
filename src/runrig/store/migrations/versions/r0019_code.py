"""Code that was sent with workflows, and the workflows that use it."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE, WORDS

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "codes",
        sa.Column("user", WORDS, nullable=False),
        sa.Column("id", WORDS, nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("user", "id", name=op.f("pk_codes")),
    )
    op.create_table(
        "code_pieces",
        sa.Column("user", WORDS, nullable=False),
        sa.Column("hash", WORDS, nullable=False),
        sa.Column("place", WHOLE, autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("user", "hash", "place", name=op.f("pk_code_pieces")),
    )
    with op.batch_alter_table("specifications") as table:
        table.add_column(sa.Column("code", WORDS, nullable=True))
        table.create_index(op.f("ix_specifications_code"), ["code"])
