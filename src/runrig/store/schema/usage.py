"""Usage per hour and per day, and how far the log is folded into it (`engine.usage`). Amounts are GPU × microseconds."""

from sqlalchemy import BigInteger, Column, LargeBinary, Table

from runrig.domain.usage import COLUMNS, FLAVOR, KEYS, QUOTA, WORK
from runrig.store.columns import WHOLE, Words
from runrig.store.schema.base import metadata


def _usage(table: str) -> Table:
    """*hours*: 1 or 24, the length of what begins at *begin*, in seconds since the epoch."""
    return Table(
        f"usage_{table}",
        metadata,
        Column("hours", WHOLE, primary_key=True, autoincrement=False),
        Column("begin", BigInteger, primary_key=True, autoincrement=False),
        *(Column(name, Words, primary_key=True) for name in KEYS[table]),
        *(Column(name, BigInteger, nullable=False) for name in COLUMNS[table]),
        sqlite_with_rowid=False,
    )


usage_work, usage_quota, usage_flavor = _usage(WORK), _usage(QUOTA), _usage(FLAVOR)

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
