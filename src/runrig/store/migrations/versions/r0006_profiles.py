"""Profiles: a user's default pool and notification settings."""

from alembic import op

from runrig.store.migrations.types import FLAG, WORDS, key, needed, optional

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    notified = needed(email_notification=FLAG, slack_notification=FLAG)
    op.create_table("profiles", *key(user=WORDS), *optional(pool=WORDS), *notified)
