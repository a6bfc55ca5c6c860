"""Notices: settings of users, and what has not arrived yet."""

from alembic import op

from runrig.store.migrations.types import JSON, LARGE, PROSE, TIME, WHOLE, WORDS, key, needed, optional

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "notice_settings",
        *key(user=WORDS),
        *needed(to=PROSE, when=JSON, min_run_s=WHOLE, secret=WORDS, position=LARGE),
        *optional(tried_at=TIME),
        *needed(result=PROSE),
    )
    op.create_table(
        "deliveries",
        *key(id=WORDS),
        *needed(user=WORDS, body=PROSE, attempt=WHOLE, due=TIME, number=LARGE),
    )
    op.create_index(None, "deliveries", ["user", "number"])
