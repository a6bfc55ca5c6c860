"""What happened: the log, checkpoints of it, and what people said of it."""

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, Table

from runrig.store.columns import WHOLE, Encoded, Prose, UtcDateTime, Words, plain_json
from runrig.store.schema.base import Texts, metadata

# *workflow* and *pool*: which one the action changes, so that its events can be read by an index.
events = Table(
    "events",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", WHOLE, primary_key=True, autoincrement=False),
    Column("time", UtcDateTime, nullable=False),
    Column("actor", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("action", plain_json(), nullable=False),
    Column("law", Words, nullable=False),
    Column("workflow", Words),
    Column("pool", Words),
    Index(None, "workflow", "revision", "seq"),
    Index(None, "pool", "revision", "seq"),
)
_OF_POOLS = events.c.pool.is_not(None)
Index("ix_events_of_pools", events.c.revision, events.c.seq, sqlite_where=_OF_POOLS, postgresql_where=_OF_POOLS)

# How the cluster stood after some revisions, so that a later one is found without all that led to it (`store.checkpoints`).
# *cluster*: nodes, pools and the like; None: as at the checkpoint *cluster_at*.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("time", UtcDateTime, nullable=False),
    Column("cluster_at", BigInteger, nullable=False),
    Column("cluster", LargeBinary),
    Column("gangs", LargeBinary, nullable=False),
    Column("firm", WHOLE, nullable=False),
    Column("low", WHOLE, nullable=False),
    Column("waiting", WHOLE, nullable=False),
    Column("preempted", WHOLE, nullable=False),
)

# Who waited at a checkpoint (`store.waiting`).  *whole*: all; else those decided about since the row before.  *workflows*: how many.
waiting = Table(
    "waiting",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("whole", Boolean, nullable=False),
    Column("workflows", WHOLE, nullable=False),
    Column("gangs", LargeBinary, nullable=False),
)

# What people said about revisions that they made; most say nothing.
notes = Table(
    "notes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("description", Prose, nullable=False),
    Column("tags", Encoded(Texts), nullable=False),
)

# The highest number of a workflow's name among what was pruned: numbers are never given twice.
past_numbers = Table(
    "past_numbers", metadata, Column("name", Words, primary_key=True), Column("number", WHOLE, nullable=False)
)

# Workflows whose row is gone, and whose events and log files are going.
pruned = Table("pruned", metadata, Column("workflow", Words, primary_key=True))
