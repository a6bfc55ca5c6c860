"""Facts about a commit, such as that a cycle ended before it."""

from runrig.store.migrations.types import JSON, add, optional

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    for table in ("events", "leaves"):
        add(table, *optional(about=JSON))
