"""Gangs that the cluster's own scheduler did not place (rule T7)."""

import sqlalchemy as sa

from runrig.store.migrations.types import PROSE, WHOLE, add

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    add("gangs", sa.Column("refused", PROSE, nullable=False, server_default=""))
    add("groups", sa.Column("refusals", WHOLE, nullable=False, server_default="0"))
