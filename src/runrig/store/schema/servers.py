"""The leader, and the revision of the database."""

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime

from runrig.store.columns import WHOLE, Words
from runrig.store.schema.base import key, needed, table

# At most one row, for a database with several servers. A separate table, so that heartbeats do not wait for commits.
leader = table(
    "leader",
    *key(id=WHOLE),
    *needed(epoch=BigInteger, process=WHOLE, host=Words, heartbeat_at=DateTime(timezone=True)),
    CheckConstraint("id = 1", name="one_leader"),
)

# One row. If a commit does not find the revision before its own, another server has taken over.
meta = table(
    "meta",
    *key(id=WHOLE),
    *needed(revision=BigInteger),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("id = 1", name="one_row"),
)
