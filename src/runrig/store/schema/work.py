"""Submitted workflows and their progress."""

from sqlalchemy import Boolean, Column, ForeignKey, ForeignKeyConstraint, Index, Table, UniqueConstraint

from runrig.domain.after import After
from runrig.domain.gangs import GangState, Law, Placement, PodSet, Priority
from runrig.domain.times import Times
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, WorkflowSpec
from runrig.store.columns import WHOLE, Encoded, OneOf, Prose, UtcDateTime, Words
from runrig.store.schema.base import ROOM, Labels, Texts, metadata
from runrig.store.schema.computed import IsArray, Ran, Waited

specifications = Table(
    "specifications",
    metadata,
    Column("hash", Words, primary_key=True),
    Column("text", Prose, nullable=False),
    Column("template", Prose, nullable=False),
    Column("spec", Encoded(WorkflowSpec), nullable=False),
    Column("code", Words, index=True),
    Index("ix_specifications_of_arrays", "hash", sqlite_where=IsArray(), postgresql_where=IsArray()),
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
    Column("times", Encoded(Times)),
    Column("after", Encoded(tuple[After, ...], alike=True), nullable=False, server_default="[]"),
    Column("most", WHOLE),
    UniqueConstraint("name", "number"),
    Index(None, "submit_time"),
    Index(None, "pool", "submit_time"),
    Index(None, "pool", "status", "submit_time"),
    Index(None, "submitted_by", "submit_time"),
    Index(None, "status", "submit_time"),
    Index("ix_workflows_status_waited", "status", Waited(), "submit_time"),
    Index("ix_workflows_status_ran", "status", Ran(), "submit_time"),
    Index(None, "end_time"),
    Index(None, "spec_hash"),
    Index(None, "parent"),
)

# Sums over workflows, kept in the transactions that change them (`store.sums`). In milliseconds; *waiting*, *running*: how many
# do so now, since a time that is not yet in *waited* and *ran*.
workflow_sums = Table(
    "workflow_sums",
    metadata,
    Column("pool", Words, primary_key=True),
    Column("submitted_by", Words, primary_key=True),
    Column("status", OneOf(WorkflowStatus), primary_key=True),
    Column("priority", OneOf(Priority), primary_key=True),
    *(
        Column(name, WHOLE, nullable=False)
        for name in ("workflows", "waited", "ran", "waiting", "waiting_since", "running", "running_since")
    ),
)

# Tags that users add to a workflow, even after it finished. They are not part of the cluster state.
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
