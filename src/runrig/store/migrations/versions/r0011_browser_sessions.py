"""Browser sessions."""

from alembic import op

from runrig.store.migrations.types import JSON, TIME, WORDS, key, needed, optional

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "browser_sessions",
        *key(hash=WORDS),
        *needed(user=WORDS, token=WORDS),
        *optional(roles=JSON),
        *needed(created_at=TIME, seen_at=TIME, ends_at=TIME),
    )
