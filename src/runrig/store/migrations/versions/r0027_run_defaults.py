"""Default image of a pool, and how long its shells can be idle."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WORDS

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("default_image", WORDS, nullable=True))
        pools.add_column(sa.Column("shell_idle_s", sa.Double(), nullable=True))
