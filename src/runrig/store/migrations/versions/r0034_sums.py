"""Sums of workflows by pool, user, status and priority."""

import sqlalchemy as sa
from alembic import op

from runrig.store import sums

revision = "0034"
down_revision = "0033"

# As in r0001.
WHOLE = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
WORDS = sa.String().with_variant(sa.String(collation="C"), "postgresql")
ONE_OF = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")
AMOUNTS = ("workflows", "waited", "ran", "waiting", "waiting_since", "running", "running_since")


def upgrade() -> None:
    op.create_table(
        "workflow_sums",
        sa.Column("pool", WORDS, nullable=False),
        sa.Column("submitted_by", WORDS, nullable=False),
        sa.Column("status", ONE_OF, nullable=False),
        sa.Column("priority", ONE_OF, nullable=False),
        *(sa.Column(name, WHOLE, nullable=False) for name in AMOUNTS),
        sa.PrimaryKeyConstraint("pool", "submitted_by", "status", "priority", name=op.f("pk_workflow_sums")),
    )
    sums.recount(op.get_bind())
