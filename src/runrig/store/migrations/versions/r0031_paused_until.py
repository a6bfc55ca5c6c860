"""Pauses of pools that end by themselves (rule S8)."""

from runrig.store.migrations.types import TIME, add, optional

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    add("pools", *optional(paused_until=TIME))
