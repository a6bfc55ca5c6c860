"""Pending gangs at a checkpoint, as changes since the previous one."""

from alembic import op

from runrig.store.migrations.types import BYTES, FLAG, LARGE, WHOLE, key, needed

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table("waiting", *key(revision=LARGE), *needed(whole=FLAG, workflows=WHOLE, gangs=BYTES))
