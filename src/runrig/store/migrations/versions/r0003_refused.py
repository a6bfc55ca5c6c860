"""Gangs that the cluster's own scheduler did not place (rule T7)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE, WHOLE

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("gangs") as gangs:
        gangs.add_column(sa.Column("refused", PROSE, nullable=False, server_default=""))
    with op.batch_alter_table("groups") as groups:
        groups.add_column(sa.Column("refusals", WHOLE, nullable=False, server_default="0"))
