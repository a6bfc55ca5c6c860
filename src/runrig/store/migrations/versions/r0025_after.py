"""The workflows that a workflow waits for, and the workflows that repeat one."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import JSON, add

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    add("workflows", sa.Column("after", JSON, nullable=False, server_default="[]"))
    op.create_index(None, "workflows", ["parent"])
