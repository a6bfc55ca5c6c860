"""Gangs that the cluster's own scheduler did not place (rule T7)."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

PROSE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
WHOLE = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("gangs") as gangs:
        gangs.add_column(sa.Column("refused", PROSE, nullable=False, server_default=""))
    with op.batch_alter_table("groups") as groups:
        groups.add_column(sa.Column("refusals", WHOLE, nullable=False, server_default="0"))
