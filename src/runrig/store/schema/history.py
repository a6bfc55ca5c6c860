"""History: the log, checkpoints, and notes on revisions."""

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, Table

from runrig.store.columns import WHOLE, Encoded, Prose, UtcDateTime, Words, plain_json
from runrig.store.schema.base import Texts, metadata

# *workflow* and *pool*: what the action changes, so that an index can find its events. *hash*: of the commit, on its last
# event (`store.chain`); None before the upgrade to schema 0024. *about*: facts about the commit, on
# its last event; None: there are none. A migration must not change what is hashed.
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
    Column("hash", LargeBinary),
    Column("about", plain_json()),
    Index(None, "workflow", "revision", "seq"),
    Index(None, "pool", "revision", "seq"),
)
_OF_POOLS = events.c.pool.is_not(None)
Index("ix_events_of_pools", events.c.revision, events.c.seq, sqlite_where=_OF_POOLS, postgresql_where=_OF_POOLS)

# Leaves of events that retention deleted, so that the hashes of commits can still be computed.
leaves = Table(
    "leaves",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", WHOLE, primary_key=True, autoincrement=False),
    Column("leaf", LargeBinary, nullable=False),
    Column("hash", LargeBinary),
    Column("about", plain_json()),
)

# The state of the cluster after some revisions, so that a later state does not need the whole log
# (`store.checkpoints`). *cluster*: nodes, pools and the like; None: as in the checkpoint *cluster_at*.
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

# All that was alive at some revisions, from which `runrig verify` can begin (`store.snapshots`).
snapshots = Table(
    "snapshots",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("time", UtcDateTime, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# Pending gangs at a checkpoint (`store.waiting`). *whole*: all; else those decided since the previous row. *workflows*:
# count.
waiting = Table(
    "waiting",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("whole", Boolean, nullable=False),
    Column("workflows", WHOLE, nullable=False),
    Column("gangs", LargeBinary, nullable=False),
)

# Notes that users attached to their revisions; most have none.
notes = Table(
    "notes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("description", Prose, nullable=False),
    Column("tags", Encoded(Texts), nullable=False),
)

# The highest number of a workflow's name among pruned workflows, because numbers are never reused.
past_numbers = Table(
    "past_numbers", metadata, Column("name", Words, primary_key=True), Column("number", WHOLE, nullable=False)
)

# Workflows whose row was deleted, and whose events and log files are being deleted.
pruned = Table("pruned", metadata, Column("workflow", Words, primary_key=True))
