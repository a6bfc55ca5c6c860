"""Facts about a commit, such as that a cycle ended before it."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    for table in ("events", "leaves"):
        op.add_column(table, sa.Column("about", sa.JSON(), nullable=True))
