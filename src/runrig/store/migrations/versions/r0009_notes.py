"""Notes that users attach to revisions."""

from alembic import op

from runrig.store.migrations.types import JSON, LARGE, PROSE, key, needed

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table("notes", *key(revision=LARGE), *needed(description=PROSE, tags=JSON))
