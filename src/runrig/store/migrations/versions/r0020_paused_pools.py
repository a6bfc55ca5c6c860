"""Paused pools (rule S8)."""

import sqlalchemy as sa

from runrig.store.migrations.types import PROSE, TIME, WORDS, add, optional

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    add("pools", *optional(paused_by=WORDS, paused_since=TIME))
    add("pools", sa.Column("paused_reason", PROSE, nullable=False, server_default=""))
