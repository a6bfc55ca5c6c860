"""Notes that users attach to revisions."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

PROSE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "notes",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("description", PROSE, nullable=False),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_notes")),
    )
