"""Default image of a pool, and how long its shells can be idle."""

from runrig.store.migrations.types import REAL, WORDS, add, optional

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    add("pools", *optional(default_image=WORDS, shell_idle_s=REAL))
