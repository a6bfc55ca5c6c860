"""Workflows on hold (rule W3)."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WORDS

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    with op.batch_alter_table("workflows") as workflows:
        workflows.add_column(sa.Column("held_by", WORDS, nullable=True))
        workflows.add_column(sa.Column("held_since", sa.DateTime(timezone=True), nullable=True))
