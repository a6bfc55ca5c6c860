"""How many elements of an array may run at a time."""

from runrig.store.migrations.types import WHOLE, add, optional

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    add("workflows", *optional(most=WHOLE))
