"""The workflows that a workflow waits for, and the workflows that repeat one."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    with op.batch_alter_table("workflows") as table:
        table.add_column(sa.Column("after", sa.JSON(), nullable=False, server_default="[]"))
        table.create_index(op.f("ix_workflows_parent"), ["parent"])
