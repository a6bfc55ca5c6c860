"""Limits of users over all pools (rule W6)."""

from alembic import op

from runrig.store.migrations.types import WHOLE, WORDS, key, optional

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.create_table("limits", *key(user=WORDS), *optional(gpus=WHOLE, waiting=WHOLE, gpus_per_workflow=WHOLE))
