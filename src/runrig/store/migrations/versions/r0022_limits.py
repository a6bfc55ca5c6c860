"""Limits of pools (rule W6)."""

from runrig.store.migrations.types import WHOLE, add, optional

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    add("pools", *optional(user_waiting=WHOLE, gpus_per_workflow=WHOLE))
