"""Notes that users attach to revisions."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "notes",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("description", PROSE, nullable=False),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_notes")),
    )
