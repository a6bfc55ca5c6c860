"""Rows of usage have the id of their names, which is shorter."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import LARGE, WHOLE, WORDS, key, needed

revision = "0035"
down_revision = "0034"


NAMES = ("pool", "flavor", "priority", "user")
TABLES = {
    "usage_work": (NAMES, ("held", "waited", "lost_preempted", "lost_other")),
    "usage_quota": (("pool", "flavor"), ("quota", "drawn", "borrowed", "lent")),
    "usage_flavor": (("flavor",), ("capacity", "down", "free", "idle_asked")),
}


def upgrade() -> None:
    keys = op.create_table(
        "usage_keys",
        *key(id=sa.Integer()),
        *needed(day=LARGE, **dict.fromkeys(NAMES, WORDS)),
        sa.UniqueConstraint(*NAMES),
    )
    before = [_set_aside(table, *columns) for table, columns in TABLES.items()]
    every = sa.union_all(*(sa.select(was.c.begin, *_names(was)) for was in before)).subquery()
    names, last = [every.c[name] for name in NAMES], sa.func.max(every.c.begin)
    numbered = sa.select(sa.func.row_number().over(order_by=names), last - last % 86_400, *names).group_by(*names)
    op.execute(sa.insert(keys).from_select(keys.columns.keys(), numbered))
    for (table, (_, amounts)), was in zip(TABLES.items(), before, strict=True):
        _fill(table, amounts, was, keys)
        op.drop_table(was.name)


def _set_aside(table: str, names: tuple[str, ...], amounts: tuple[str, ...]) -> sa.TableClause:
    if op.get_bind().dialect.name == "postgresql":  # There, a constraint is also the name of an index.
        op.drop_constraint(f"pk_{table}", table)
    op.rename_table(table, f"{table}_before")
    whole = (sa.column(name, sa.BigInteger()) for name in ("hours", "begin", *amounts))
    return sa.table(f"{table}_before", *whole, *(sa.column(name, WORDS) for name in names))


def _names(was: sa.TableClause) -> list[sa.ColumnElement[str]]:
    return [was.c[name] if name in was.c else sa.literal("").label(name) for name in NAMES]


def _fill(table: str, amounts: tuple[str, ...], was: sa.TableClause, keys: sa.Table) -> None:
    made = op.create_table(
        table,
        *key(hours=WHOLE, begin=LARGE, key=sa.Integer()),
        *needed(**dict.fromkeys(amounts, LARGE)),
        sqlite_with_rowid=False,
    )
    # Ids are in the order of names, so SQLite reads and writes rows in the order of both primary keys.
    same = (keys.c[name] == value for name, value in zip(NAMES, _names(was), strict=True))
    id = sa.select(keys.c.id).where(*same).scalar_subquery()
    rows = sa.select(was.c.hours, was.c.begin, id, *(was.c[name] for name in amounts))
    op.execute(sa.insert(made).from_select(made.columns.keys(), rows))
