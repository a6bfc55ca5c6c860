"""The limit of GPUs of one user in a pool (rule W6)."""

from runrig.store.migrations.types import WHOLE, add, optional

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    add("pools", *optional(user_gpus=WHOLE))
