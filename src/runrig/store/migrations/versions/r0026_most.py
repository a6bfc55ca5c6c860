"""How many elements of an array may run at a time."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    with op.batch_alter_table("workflows") as table:
        table.add_column(sa.Column("most", sa.Integer().with_variant(sa.BigInteger(), "postgresql")))
