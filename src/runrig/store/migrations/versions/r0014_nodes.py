"""Cordoned nodes, and how often groups were stopped by a drain (rules N1, N2)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    with op.batch_alter_table("nodes") as nodes:
        nodes.add_column(sa.Column("cordoned", sa.Boolean(), nullable=False, server_default=sa.false()))
    with op.batch_alter_table("groups") as groups:
        groups.add_column(sa.Column("drains", WHOLE, nullable=False, server_default="0"))
