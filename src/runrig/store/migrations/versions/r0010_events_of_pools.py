"""Events of pools by revision: a page of their history is found without reading the changes before it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

OF_POOLS = sa.text("pool IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_events_of_pools", "events", ["revision", "seq"], sqlite_where=OF_POOLS, postgresql_where=OF_POOLS
    )
