"""Which server leads, and how far the database is."""

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Table

from runrig.store.columns import WHOLE, Words
from runrig.store.schema.base import metadata

# One row at most, of a database with several servers: a table of its own, so that a heartbeat waits for no commit.
leader = Table(
    "leader",
    metadata,
    Column("id", WHOLE, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("process", WHOLE, nullable=False),
    Column("host", Words, nullable=False),
    Column("heartbeat_at", DateTime(timezone=True), nullable=False),
    CheckConstraint("id = 1", name="one_leader"),
)

# One row.  A commit that does not find the revision before its own was overtaken by another server.
meta = Table(
    "meta",
    metadata,
    Column("id", WHOLE, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("id = 1", name="one_row"),
)
