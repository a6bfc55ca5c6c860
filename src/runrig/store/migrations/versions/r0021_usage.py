"""Usage per hour and per day, and how far the log is folded into it."""

from alembic import op

from runrig.store.migrations.types import BYTES, LARGE, WHOLE, WORDS, key, needed

revision = "0021"
down_revision = "0020"

TABLES = {
    "usage_work": (("pool", "flavor", "priority", "user"), ("held", "waited", "lost_preempted", "lost_other")),
    "usage_quota": (("pool", "flavor"), ("quota", "drawn", "borrowed", "lent")),
    "usage_flavor": (("flavor",), ("capacity", "down", "free", "idle_asked")),
}


def upgrade() -> None:
    for table, (keys, columns) in TABLES.items():
        names, amounts = dict.fromkeys(keys, WORDS), dict.fromkeys(columns, LARGE)
        op.create_table(table, *key(hours=WHOLE, begin=LARGE, **names), *needed(**amounts), sqlite_with_rowid=False)
    op.create_table(
        "usage_cursor",
        *key(id=WHOLE),
        *needed(revision=LARGE, at=LARGE, since=LARGE, version=WHOLE, cluster=BYTES, gangs=BYTES, rest=BYTES),
    )
