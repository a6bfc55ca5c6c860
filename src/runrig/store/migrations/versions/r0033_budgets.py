"""Budgets of pools and users, and what is spent of them (rule W7)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE, WORDS

revision = "0033"
down_revision = "0032"

ONE_OF = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("budget", WHOLE, nullable=True))
        pools.add_column(sa.Column("budget_reached", ONE_OF, nullable=True))
    with op.batch_alter_table("limits") as limits:
        limits.add_column(sa.Column("budget", WHOLE, nullable=True))
    op.create_table(
        "spent",
        sa.Column("of", WORDS, nullable=False),
        sa.Column("name", WORDS, nullable=False),
        sa.Column("month", sa.DateTime(timezone=True), nullable=False),
        sa.Column("held", WHOLE, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stops", ONE_OF, nullable=True),
        sa.PrimaryKeyConstraint("of", "name", name=op.f("pk_spent")),
    )
