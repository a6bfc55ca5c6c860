"""Budgets of pools and users, and what is spent of them (rule W7)."""

from alembic import op

from runrig.store.migrations.types import TIME, WHOLE, WORD, WORDS, add, key, needed, optional

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    add("pools", *optional(budget=WHOLE, budget_reached=WORD))
    add("limits", *optional(budget=WHOLE))
    op.create_table(
        "spent", *key(of=WORDS, name=WORDS), *needed(month=TIME, held=WHOLE, since=TIME), *optional(stops=WORD)
    )
