"""The tables of 0.2.0: users, roles, tokens, their audit trail; the leader; pruned workflows."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import FLAG, LARGE, TIME, WHOLE, WORD, WORDS, add, key, needed, optional

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table("users", *key(name=WORDS), *needed(created_at=TIME, disabled=FLAG))
    op.create_table(
        "grants",
        *key(user=WORDS, kind=WORD, pool=WORDS),
        *needed(granted_at=TIME, granted_by=WORDS),
        sa.ForeignKeyConstraint(["user"], ["users.name"]),
    )
    op.create_table(
        "tokens",
        *key(id=WORDS),
        *needed(name=WORDS, user=WORDS, hash=WORDS, created_at=TIME),
        *optional(expires_at=TIME, last_used_at=TIME, revoked_at=TIME),
        sa.ForeignKeyConstraint(["user"], ["users.name"]),
        sa.UniqueConstraint("hash"),
    )
    op.create_index(None, "tokens", ["user"])
    op.create_table(
        "access_events",
        *key(number=WHOLE),
        *needed(time=TIME, actor=WORDS, kind=WORD, user=WORDS, subject=WORDS),
    )
    op.create_index(None, "access_events", ["user", "number"])
    op.create_table("secrets", *key(name=WORDS), *needed(value=WORDS))
    add("meta", sa.Column("epoch", LARGE, nullable=False, server_default="0"))
    op.create_table(
        "leader",
        *key(id=WHOLE),
        *needed(epoch=LARGE, process=WHOLE, host=WORDS, heartbeat_at=TIME),
        sa.CheckConstraint("id = 1", name="one_leader"),
    )
    op.create_table("past_numbers", *key(name=WORDS), *needed(number=WHOLE))
    op.create_table("pruned", *key(workflow=WORDS))
    op.create_index(None, "workflows", ["end_time"])
    op.create_index(None, "workflows", ["spec_hash"])
