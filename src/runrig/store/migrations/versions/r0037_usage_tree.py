"""Sums of usage of pools with their subpools."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import LARGE, WHOLE, key, needed

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.create_table(
        "usage_tree",
        *key(hours=WHOLE, begin=LARGE, key=sa.Integer()),
        *needed(quota=LARGE, drawn=LARGE, borrowed=LARGE, lent=LARGE),
        sqlite_with_rowid=False,
    )
