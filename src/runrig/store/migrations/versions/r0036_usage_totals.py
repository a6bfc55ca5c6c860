"""Sums of usage by flavor alone."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import LARGE, WHOLE, key, needed

revision = "0036"
down_revision = "0035"

TABLES = {
    "usage_work": ("held", "waited", "lost_preempted", "lost_other"),
    "usage_quota": ("quota", "drawn", "borrowed", "lent"),
}
KEYS = sa.table("usage_keys", *(sa.column(name) for name in ("id", "day", "pool", "flavor", "priority", "user")))


def upgrade() -> None:
    flavors = _keys_of_flavors()
    for table, amounts in TABLES.items():
        made = op.create_table(
            f"{table}_total",
            *key(hours=WHOLE, begin=LARGE, key=sa.Integer()),
            *needed(**dict.fromkeys(amounts, LARGE)),
            sqlite_with_rowid=False,
        )
        was = sa.table(table, *(sa.column(name) for name in ("hours", "begin", "key", *amounts)))
        for flavor, id in flavors.items():
            # A statement for each flavor, so that SQLite reads in the order of the primary key and sorts nothing.
            of_flavor = was.c.key.in_(sa.select(KEYS.c.id).where(KEYS.c.flavor == flavor))
            sums = (sa.func.sum(was.c[name]) for name in amounts)
            rows = sa.select(was.c.hours, was.c.begin, sa.literal(id), *sums).where(of_flavor)
            rows = rows.group_by(was.c.hours, was.c.begin)
            op.execute(sa.insert(made).from_select(made.columns.keys(), rows))


def _keys_of_flavors() -> dict[str, int]:
    """Flavor → the id of the flavor alone. Creates the missing ones."""
    connection = op.get_bind()
    last = {
        row[0]: row[1]
        for row in connection.execute(sa.select(KEYS.c.flavor, sa.func.max(KEYS.c.day)).group_by(KEYS.c.flavor))
    }
    alone = sa.and_(KEYS.c.pool == "", KEYS.c.priority == "", KEYS.c.user == "")
    found = {row[0]: row[1] for row in connection.execute(sa.select(KEYS.c.flavor, KEYS.c.id).where(alone))}
    free = 1 + (connection.execute(sa.select(sa.func.max(KEYS.c.id))).scalar_one() or 0)
    for flavor, day in sorted(last.items()):
        if flavor in found:
            connection.execute(sa.update(KEYS).where(KEYS.c.id == found[flavor]).values(day=day))
        else:
            found[flavor], free = free, free + 1
            names = {"pool": "", "flavor": flavor, "priority": "", "user": ""}
            connection.execute(sa.insert(KEYS).values(id=found[flavor], day=day, **names))
    return found
