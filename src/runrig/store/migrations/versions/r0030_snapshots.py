"""All that was alive at some revisions."""

from alembic import op

from runrig.store.migrations.types import BYTES, LARGE, TIME, key, needed

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.create_table("snapshots", *key(revision=LARGE), *needed(time=TIME, content=BYTES))
