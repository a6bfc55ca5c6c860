"""Cordoned nodes, and how often groups were stopped by a drain (rules N1, N2)."""

import sqlalchemy as sa

from runrig.store.migrations.types import FLAG, WHOLE, add

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    add("nodes", sa.Column("cordoned", FLAG, nullable=False, server_default=sa.false()))
    add("groups", sa.Column("drains", WHOLE, nullable=False, server_default="0"))
