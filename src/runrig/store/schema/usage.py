"""Usage per hour and per day, and how far the log is folded into it (`engine.usage`). Amounts are GPU × microseconds.

A server with many users has thousands of sums an hour. So all of them are one row, compressed: a row for each would take eleven
times the space in PostgreSQL, and three times in SQLite.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, UniqueConstraint

from runrig.domain.usage import KEYS, WORK
from runrig.store.columns import WHOLE, Words
from runrig.store.schema.base import key, needed, table

# Each combination of names that has sums; "" for what they do not have. *day*: the begin of the last day with a sum.
usage_keys = table(
    "usage_keys",
    *key(id=Integer),
    *needed(day=BigInteger),
    *(Column(name, Words, nullable=False) for name in KEYS[WORK]),
    UniqueConstraint(*KEYS[WORK]),
)


# All sums of a table of `domain.usage`, in an hour or day. *hours*: 1 or 24, the length of what begins at *begin*, in seconds since
# the epoch. *packed*: the ids of keys, and the sums of each column (`store.usage`).
usage_sums = table("usage_sums", *key(name=Words, hours=WHOLE, begin=BigInteger), *needed(packed=LargeBinary))

# One row. *at*, *since*: microseconds since the epoch. *version*: of the rules by which usage is counted. *cluster*, *gangs*: as in
# a checkpoint. *rest*: the other fields of `domain.usage.Folded`, as compressed JSON.
usage_cursor = table(
    "usage_cursor",
    *key(id=WHOLE),
    *needed(
        revision=BigInteger,
        at=BigInteger,
        since=BigInteger,
        version=WHOLE,
        cluster=LargeBinary,
        gangs=LargeBinary,
        rest=LargeBinary,
    ),
)
