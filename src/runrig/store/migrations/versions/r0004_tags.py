"""Tags of workflows."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "workflow_tags",
        sa.Column("workflow", TEXT, nullable=False),
        sa.Column("tag", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"], name=op.f("fk_workflow_tags_workflow")),
        sa.PrimaryKeyConstraint("workflow", "tag", name=op.f("pk_workflow_tags")),
    )
    op.create_index(op.f("ix_workflow_tags_tag"), "workflow_tags", ["tag"], unique=False)
