"""Credentials, sealed."""

from alembic import op

from runrig.store.migrations.types import JSON, PROSE, TIME, WORD, WORDS, key, needed

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    values = needed(kind=WORD, keys=JSON, profile=PROSE, changed_at=TIME, sealed=PROSE)
    op.create_table("credentials", *key(user=WORDS, name=WORDS), *values)
