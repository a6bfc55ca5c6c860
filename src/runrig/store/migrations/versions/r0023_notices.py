"""Notices: settings of users, and what has not arrived yet."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE, WHOLE, WORDS

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "notice_settings",
        sa.Column("user", WORDS, nullable=False),
        sa.Column("to", PROSE, nullable=False),
        sa.Column("when", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("min_run_s", WHOLE, nullable=False),
        sa.Column("secret", WORDS, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("result", PROSE, nullable=False),
        sa.PrimaryKeyConstraint("user", name=op.f("pk_notice_settings")),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", WORDS, nullable=False),
        sa.Column("user", WORDS, nullable=False),
        sa.Column("body", PROSE, nullable=False),
        sa.Column("attempt", WHOLE, nullable=False),
        sa.Column("due", sa.DateTime(timezone=True), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    op.create_index(op.f("ix_deliveries_user_number"), "deliveries", ["user", "number"])
