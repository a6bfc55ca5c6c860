"""Tags of workflows."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WORDS

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "workflow_tags",
        sa.Column("workflow", WORDS, nullable=False),
        sa.Column("tag", WORDS, nullable=False),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"], name=op.f("fk_workflow_tags_workflow")),
        sa.PrimaryKeyConstraint("workflow", "tag", name=op.f("pk_workflow_tags")),
    )
    op.create_index(op.f("ix_workflow_tags_tag"), "workflow_tags", ["tag"], unique=False)
