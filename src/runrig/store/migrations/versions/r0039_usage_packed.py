"""The sums of usage of an hour or day are one row for each table, compressed."""

import zlib
from collections.abc import Sequence
from operator import sub
from struct import pack
from typing import Any

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import BYTES, LARGE, WHOLE, WORDS, key, needed

revision = "0039"
down_revision = "0038"

_OF_WORK = ("held", "waited", "lost_preempted", "lost_other")
_OF_QUOTA = ("quota", "drawn", "borrowed", "lent")
TABLES = {
    "work": _OF_WORK,
    "quota": _OF_QUOTA,
    "tree": _OF_QUOTA,
    "flavor": ("capacity", "down", "free", "idle_asked"),
    "work_total": _OF_WORK,
    "quota_total": _OF_QUOTA,
}


def upgrade() -> None:
    made = op.create_table("usage_sums", *key(name=WORDS, hours=WHOLE, begin=LARGE), *needed(packed=BYTES))
    connection = op.get_bind()
    for name, columns in TABLES.items():
        was = sa.table(f"usage_{name}", *(sa.column(each) for each in ("hours", "begin", "key", *columns)))
        of = sa.select(was.c.key, *(was.c[each] for each in columns)).order_by(was.c.key)
        of = of.where(was.c.hours == sa.bindparam("hours"), was.c.begin == sa.bindparam("begin"))
        for hours, begin in connection.execute(sa.select(was.c.hours, was.c.begin).distinct()).all():
            rows = connection.execute(of, {"hours": hours, "begin": begin}).all()
            values = {"name": name, "hours": hours, "begin": begin, "packed": _packed(rows)}
            connection.execute(sa.insert(made).values(values))
        op.drop_table(was.name)


def _packed(rows: Sequence[Sequence[Any]]) -> bytes:
    """As `store.usage` reads it."""
    ids, *columns = zip(*rows, strict=True)
    numbers = [*map(sub, ids, (0, *ids)), *(amount for column in columns for amount in column)]
    return zlib.compress(pack(f"<{len(numbers)}q", *numbers))
