"""The tables.  Values that are listed, filtered or sorted have a column of their own; nested values are JSON.

Columns are named as the fields of the records that they keep (`rows`).  A change here needs a migration: a test compares the two.
No foreign key leads to a cohort or a flavor, because a name that is not defined (yet) is legal there (law Q6).
"""

from collections.abc import Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
    false,
)

from runrig.domain.access import AccessEventKind, Kind
from runrig.domain.credentials import CredentialKind
from runrig.domain.gangs import GangState, Law, Placement, PodSet, Priority
from runrig.domain.nodes import Taint
from runrig.domain.pools import PoolState, Queueing, Quotas, TopologyKey
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, WorkflowSpec
from runrig.store.columns import WHOLE, Encoded, OneOf, Prose, UtcDateTime, Words, plain_json

HEAD = "0015"
"""The newest migration, which makes these tables."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Rows that change often find room for their next version on the same page: PostgreSQL then writes no index.
ROOM = {"fillfactor": 50}

Texts = tuple[str, ...]
Labels = Mapping[str, str]

# ---------------------------------------------------------------- what the cluster is

flavors = Table(
    "flavors",
    metadata,
    Column("name", Words, primary_key=True),
    Column("position", WHOLE, nullable=False),
    Column("node_labels", Encoded(Labels), nullable=False),
    Column("taints", Encoded(tuple[Taint, ...]), nullable=False),
    Column("allow", Encoded(Texts), nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", Words, primary_key=True),
    Column("resources", Encoded(Mapping[str, int]), nullable=False),
    Column("flavor", Words, nullable=False),
    Column("labels", Encoded(Labels), nullable=False),
    Column("taints", Encoded(tuple[Taint, ...]), nullable=False),
    Column("ready", Boolean, nullable=False),
    Column("cordoned", Boolean, nullable=False, server_default=false()),
)

cohorts = Table(
    "cohorts",
    metadata,
    Column("name", Words, primary_key=True),
    Column("parent", Words),
    Column("quotas", Encoded(Quotas), nullable=False),
    Column("weight", WHOLE, nullable=False),
)

# subpools.md: a subpool is a pool with a parent; rows are never deleted (laws S4, S6).
pools = Table(
    "pools",
    metadata,
    Column("name", Words, primary_key=True),
    Column("quotas", Encoded(Quotas), nullable=False),
    Column("cohort", Words),
    Column("state", OneOf(PoolState), nullable=False),
    Column("parent", Words, ForeignKey("pools.name")),
    Column("subpool_name", Words),
    Column("weight", WHOLE, nullable=False),
    Column("queueing", OneOf(Queueing), nullable=False),
    Column("grace_s", Double, nullable=False),
    Column("flavors", Encoded(Texts), nullable=False),
    Column("topology_keys", Encoded(tuple[TopologyKey, ...]), nullable=False),
    Column("default_platform", Words),
    Column("default_exit_actions", Encoded(tuple[tuple[str, int, int], ...]), nullable=False),
    Column("description", Prose, nullable=False),
    UniqueConstraint("parent", "subpool_name"),
    CheckConstraint("(parent IS NULL) = (subpool_name IS NULL)", name="both"),
    CheckConstraint("subpool_name NOT LIKE '%--%'", name="delimiter"),
    CheckConstraint("parent IS NULL OR name = parent || '--' || subpool_name", name="canonical"),
    CheckConstraint("state IN ('ACTIVE', 'DELETING', 'ARCHIVED')", name="state"),
)

# ---------------------------------------------------------------- what was submitted, and how far it is

specifications = Table(
    "specifications",
    metadata,
    Column("hash", Words, primary_key=True),
    Column("text", Prose, nullable=False),
    Column("template", Prose, nullable=False),
    Column("spec", Encoded(WorkflowSpec), nullable=False),
)

workflows = Table(
    "workflows",
    metadata,
    Column("id", Words, primary_key=True),
    Column("uuid", Words, nullable=False, unique=True),
    Column("name", Words, nullable=False),
    Column("number", WHOLE, nullable=False),
    Column("pool", Words, ForeignKey("pools.name"), nullable=False),
    Column("priority", OneOf(Priority), nullable=False),
    Column("submitted_by", Words, nullable=False),
    Column("submit_time", UtcDateTime, nullable=False),
    Column("spec_hash", Words, ForeignKey("specifications.hash"), nullable=False),
    Column("status", OneOf(WorkflowStatus), nullable=False),
    Column("labels", Encoded(Labels), nullable=False),
    Column("parent", Words),
    Column("cancelled_by", Words),
    Column("failure_message", Prose, nullable=False),
    Column("start_time", UtcDateTime),
    Column("end_time", UtcDateTime),
    Column("held_by", Words),
    Column("held_since", UtcDateTime),
    UniqueConstraint("name", "number"),
    Index(None, "submit_time"),
    Index(None, "pool", "submit_time"),
    Index(None, "pool", "status", "submit_time"),
    Index(None, "submitted_by", "submit_time"),
    Index(None, "status", "submit_time"),
    Index(None, "end_time"),
    Index(None, "spec_hash"),
)

# Words that people put on a workflow, also after it has ended.  The cluster's state knows nothing of them.
workflow_tags = Table(
    "workflow_tags",
    metadata,
    Column("workflow", Words, ForeignKey("workflows.id"), primary_key=True),
    Column("tag", Words, primary_key=True),
    Index(None, "tag"),
)

groups = Table(
    "groups",
    metadata,
    Column("workflow", Words, ForeignKey("workflows.id"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("status", OneOf(Status), nullable=False),
    Column("attempt", WHOLE, nullable=False),
    Column("preemptions", WHOLE, nullable=False),
    Column("stopping", OneOf(Status)),
    Column("failure_message", Prose, nullable=False),
    Column("queued_time", UtcDateTime),
    Column("start_time", UtcDateTime),
    Column("end_time", UtcDateTime),
    Column("refusals", WHOLE, nullable=False, server_default="0"),
    Column("drains", WHOLE, nullable=False, server_default="0"),
    postgresql_with=ROOM,
)

tasks = Table(
    "tasks",
    metadata,
    Column("workflow", Words, primary_key=True),
    Column("name", Words, primary_key=True),
    Column("retry_id", WHOLE, primary_key=True),
    Column("group", Words, nullable=False),
    Column("spec", Words, nullable=False),
    Column("index", WHOLE, nullable=False),
    Column("lead", Boolean, nullable=False),
    Column("status", OneOf(Status), nullable=False),
    Column("node", Words),
    Column("gpus", Encoded(tuple[int, ...], alike=True), nullable=False),
    Column("exit_code", WHOLE),
    Column("failure_message", Prose, nullable=False),
    Column("start_time", UtcDateTime),
    Column("end_time", UtcDateTime),
    Column("restarting", Boolean, nullable=False),
    ForeignKeyConstraint(["workflow", "group"], ["groups.workflow", "groups.name"]),
    postgresql_with=ROOM,
)

gangs = Table(
    "gangs",
    metadata,
    Column("id", Words, primary_key=True),
    Column("workflow", Words, ForeignKey("workflows.id"), nullable=False, index=True),
    Column("pool", Words, nullable=False),
    Column("priority", OneOf(Priority), nullable=False),
    Column("submitted_at", UtcDateTime, nullable=False),
    Column("pod_sets", Encoded(tuple[PodSet, ...], alike=True), nullable=False),
    Column("attempt", WHOLE, nullable=False),
    Column("state", OneOf(GangState), nullable=False),
    Column("placement", Encoded(Placement), nullable=False),
    Column("waits_for", Encoded(Texts, alike=True), nullable=False),
    Column("admitted_at", UtcDateTime),
    Column("preempted_by", Words),
    Column("law", OneOf(Law)),
    Column("refused", Prose, nullable=False, server_default=""),
    postgresql_with=ROOM,
)

# ---------------------------------------------------------------- what happened

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

# ---------------------------------------------------------------- who may do what

# Rows are never deleted: the logs name their users.
users = Table(
    "users",
    metadata,
    Column("name", Words, primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("account", Words, index=True, unique=True),
)

# *pool*: "" is all pools, since a key has no NULL.
grants = Table(
    "grants",
    metadata,
    Column("user", Words, ForeignKey("users.name"), primary_key=True),
    Column("kind", OneOf(Kind), primary_key=True),
    Column("pool", Words, primary_key=True),
    Column("granted_at", UtcDateTime, nullable=False),
    Column("granted_by", Words, nullable=False),
)

# What people set for themselves.  `up` lets its owner speak for people without a row in users.
profiles = Table(
    "profiles",
    metadata,
    Column("user", Words, primary_key=True),
    Column("pool", Words),
    Column("email_notification", Boolean, nullable=False),
    Column("slack_notification", Boolean, nullable=False),
)

# Only the hash of a token is kept.  Rows are never deleted.
tokens = Table(
    "tokens",
    metadata,
    Column("id", Words, primary_key=True),
    Column("name", Words, nullable=False),
    Column("user", Words, ForeignKey("users.name"), nullable=False, index=True),
    Column("hash", Words, nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("description", Prose, nullable=False, server_default=""),
    Column("roles", Encoded(Texts)),
)

# Values are sealed by a key that is not here.  *user* may be the owner of `up`, who has no row.
credentials = Table(
    "credentials",
    metadata,
    Column("user", Words, primary_key=True),
    Column("name", Words, primary_key=True),
    Column("kind", OneOf(CredentialKind), nullable=False),
    Column("keys", Encoded(Texts), nullable=False),
    Column("profile", Prose, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("sealed", Prose, nullable=False),
)

# Browsers that are signed in; only the hash of a cookie is kept.  *user* may be the owner of `up`, who has no row.
browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("hash", Words, primary_key=True),
    Column("user", Words, nullable=False),
    Column("token", Words, nullable=False),
    Column("roles", Encoded(Texts)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime, nullable=False),
)

# The audit trail of users, roles and tokens, kept for ever.
access_events = Table(
    "access_events",
    metadata,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("time", UtcDateTime, nullable=False),
    Column("actor", Words, nullable=False),
    Column("kind", OneOf(AccessEventKind), nullable=False),
    Column("user", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Index(None, "user", "number"),
)

# Secrets shared by the servers of one database: the key that signs.
secrets = Table("secrets", metadata, Column("name", Words, primary_key=True), Column("value", Words, nullable=False))

# ---------------------------------------------------------------- who leads

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
