"""Usage per hour and per day, and how far the log is folded into it (`engine.usage`). Amounts are GPU × microseconds.

These are the largest tables of a server with many users: a row has an id for its names, and is half as long with it.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, Table, UniqueConstraint

from runrig.domain.usage import COLUMNS, FLAVOR, KEYS, QUOTA, TOTALS, TREE, WORK
from runrig.store.columns import WHOLE, Words
from runrig.store.schema.base import metadata

# Each combination of names that has rows; "" for what its rows do not have. *day*: the begin of the last day with a row.
usage_keys = Table(
    "usage_keys",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("day", BigInteger, nullable=False),
    *(Column(name, Words, nullable=False) for name in KEYS[WORK]),
    UniqueConstraint(*KEYS[WORK]),
)


def _usage(table: str) -> Table:
    """*hours*: 1 or 24, the length of what begins at *begin*, in seconds since the epoch."""
    return Table(
        f"usage_{table}",
        metadata,
        Column("hours", WHOLE, primary_key=True, autoincrement=False),
        Column("begin", BigInteger, primary_key=True, autoincrement=False),
        Column("key", Integer, primary_key=True, autoincrement=False),
        *(Column(name, BigInteger, nullable=False) for name in COLUMNS[table]),
        sqlite_with_rowid=False,
    )


usage_work, usage_quota, usage_tree, usage_flavor = _usage(WORK), _usage(QUOTA), _usage(TREE), _usage(FLAVOR)
# The same rows, added up by flavor: a month of hours has thousands of rows for each of these.
usage_work_total, usage_quota_total = _usage(TOTALS[WORK]), _usage(TOTALS[QUOTA])

# One row. *at*, *since*: microseconds since the epoch. *version*: of the rules by which usage is counted. *cluster*, *gangs*: as in
# a checkpoint. *rest*: the other fields of `domain.usage.Folded`, as compressed JSON.
usage_cursor = Table(
    "usage_cursor",
    metadata,
    Column("id", WHOLE, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("version", WHOLE, nullable=False),
    Column("cluster", LargeBinary, nullable=False),
    Column("gangs", LargeBinary, nullable=False),
    Column("rest", LargeBinary, nullable=False),
)
