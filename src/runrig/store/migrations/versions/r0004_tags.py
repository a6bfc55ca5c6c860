"""Tags of workflows."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WORDS, key

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "workflow_tags", *key(workflow=WORDS, tag=WORDS), sa.ForeignKeyConstraint(["workflow"], ["workflows.id"])
    )
    op.create_index(None, "workflow_tags", ["tag"])
