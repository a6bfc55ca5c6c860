"""The chain of hashes over the log. It begins with the first commit after this migration."""

from alembic import op

from runrig.store.migrations.types import BYTES, LARGE, WHOLE, add, key, needed, optional

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    add("events", *optional(hash=BYTES))
    op.create_table("leaves", *key(revision=LARGE, seq=WHOLE), *needed(leaf=BYTES), *optional(hash=BYTES))
