"""History: the log, checkpoints, and notes on revisions."""

from sqlalchemy import BigInteger, Boolean, Index, LargeBinary

from runrig.store.columns import WHOLE, Encoded, Prose, UtcDateTime, Words, plain_json
from runrig.store.schema.base import Texts, key, needed, optional, table

# *workflow* and *pool*: what the action changes, so that an index can find its events. *hash*: of the commit, on its last
# event (`store.chain`); None before the upgrade to schema 0024. *about*: facts about the commit, on
# its last event; None: there are none. A migration must not change what is hashed.
events = table(
    "events",
    *key(revision=BigInteger, seq=WHOLE),
    *needed(time=UtcDateTime, actor=Words, kind=Words, action=plain_json(), law=Words),
    *optional(workflow=Words, pool=Words, hash=LargeBinary, about=plain_json()),
    Index(None, "workflow", "revision", "seq"),
    Index(None, "pool", "revision", "seq"),
)
_OF_POOLS = events.c.pool.is_not(None)
Index("ix_events_of_pools", events.c.revision, events.c.seq, sqlite_where=_OF_POOLS, postgresql_where=_OF_POOLS)

# Leaves of events that retention deleted, so that the hashes of commits can still be computed.
leaves = table(
    "leaves",
    *key(revision=BigInteger, seq=WHOLE),
    *needed(leaf=LargeBinary),
    *optional(hash=LargeBinary, about=plain_json()),
)

# The state of the cluster after some revisions, so that a later state does not need the whole log
# (`store.checkpoints`). *cluster*: nodes, pools and the like; None: as in the checkpoint *cluster_at*.
checkpoints = table(
    "checkpoints",
    *key(revision=BigInteger),
    *needed(time=UtcDateTime, cluster_at=BigInteger),
    *optional(cluster=LargeBinary),
    *needed(gangs=LargeBinary, firm=WHOLE, low=WHOLE, waiting=WHOLE, preempted=WHOLE),
)

# All that was alive at some revisions, from which `runrig verify` can begin (`store.snapshots`).
snapshots = table("snapshots", *key(revision=BigInteger), *needed(time=UtcDateTime, content=LargeBinary))

# Pending gangs at a checkpoint (`store.waiting`). *whole*: all; else those decided since the previous row. *workflows*:
# count.
waiting = table("waiting", *key(revision=BigInteger), *needed(whole=Boolean, workflows=WHOLE, gangs=LargeBinary))

# Notes that users attached to their revisions; most have none.
notes = table("notes", *key(revision=BigInteger), *needed(description=Prose, tags=Encoded(Texts)))

# The highest number of a workflow's name among pruned workflows, because numbers are never reused.
past_numbers = table("past_numbers", *key(name=Words), *needed(number=WHOLE))

# Workflows whose row was deleted, and whose events and log files are being deleted.
pruned = table("pruned", *key(workflow=Words))
