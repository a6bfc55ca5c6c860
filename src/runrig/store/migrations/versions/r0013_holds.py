"""Workflows on hold (rule W3)."""

from runrig.store.migrations.types import TIME, WORDS, add, optional

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    add("workflows", *optional(held_by=WORDS, held_since=TIME))
