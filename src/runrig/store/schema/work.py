"""Submitted workflows and their progress."""

from sqlalchemy import Boolean, Column, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint

from runrig.domain.after import After
from runrig.domain.gangs import GangState, Law, Placement, PodSet, Priority
from runrig.domain.times import Times
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, WorkflowSpec
from runrig.store.columns import WHOLE, Encoded, OneOf, Prose, UtcDateTime, Words
from runrig.store.schema.base import FIXED, ROOM, Labels, Texts, key, needed, optional, table
from runrig.store.schema.computed import IsArray, Ran, Waited

specifications = table(
    "specifications",
    *key(hash=Words),
    *needed(text=Prose, template=Prose, spec=Encoded(WorkflowSpec)),
    Column("code", Words, index=True),
    Index("ix_specifications_of_arrays", "hash", sqlite_where=IsArray(), postgresql_where=IsArray()),
)

workflows = table(
    "workflows",
    *key(id=Words),
    Column("uuid", Words, nullable=False, unique=True),
    *needed(name=Words, number=WHOLE),
    Column("pool", Words, ForeignKey("pools.name"), nullable=False),
    *needed(priority=OneOf(Priority), submitted_by=Words, submit_time=UtcDateTime),
    Column("spec_hash", Words, ForeignKey("specifications.hash"), nullable=False),
    *needed(status=OneOf(WorkflowStatus), labels=Encoded(Labels)),
    *optional(parent=Words, cancelled_by=Words),
    *needed(failure_message=Prose),
    *optional(
        start_time=UtcDateTime, end_time=UtcDateTime, held_by=Words, held_since=UtcDateTime, times=Encoded(Times)
    ),
    Column("after", Encoded(tuple[After, ...], alike=True), nullable=False, server_default="[]"),
    *optional(most=WHOLE),
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
    info={FIXED: ("uuid", "name", "number", "submitted_by", "submit_time", "spec_hash", "parent")},
)

# Sums over workflows, kept in the transactions that change them (`store.sums`). In milliseconds; *waiting*, *running*: how many
# do so now, since a time that is not yet in *waited* and *ran*.
workflow_sums = table(
    "workflow_sums",
    *key(pool=Words, submitted_by=Words, status=OneOf(WorkflowStatus), priority=OneOf(Priority)),
    *(
        Column(name, WHOLE, nullable=False)
        for name in ("workflows", "waited", "ran", "waiting", "waiting_since", "running", "running_since")
    ),
)

# Tags that users add to a workflow, even after it finished. They are not part of the cluster state.
workflow_tags = table(
    "workflow_tags",
    Column("workflow", Words, ForeignKey("workflows.id"), primary_key=True),
    *key(tag=Words),
    Index(None, "tag"),
)

groups = table(
    "groups",
    Column("workflow", Words, ForeignKey("workflows.id"), primary_key=True),
    *key(name=Words),
    *needed(status=OneOf(Status), attempt=WHOLE, preemptions=WHOLE),
    *optional(stopping=OneOf(Status)),
    *needed(failure_message=Prose),
    *optional(queued_time=UtcDateTime, start_time=UtcDateTime, end_time=UtcDateTime),
    Column("refusals", WHOLE, nullable=False, server_default="0"),
    Column("drains", WHOLE, nullable=False, server_default="0"),
    postgresql_with=ROOM,
)

tasks = table(
    "tasks",
    *key(workflow=Words, name=Words, retry_id=WHOLE),
    *needed(group=Words, spec=Words, index=WHOLE, lead=Boolean, status=OneOf(Status)),
    *optional(node=Words),
    *needed(gpus=Encoded(tuple[int, ...], alike=True)),
    *optional(exit_code=WHOLE),
    *needed(failure_message=Prose),
    *optional(start_time=UtcDateTime, end_time=UtcDateTime),
    *needed(restarting=Boolean),
    ForeignKeyConstraint(["workflow", "group"], ["groups.workflow", "groups.name"]),
    info={FIXED: ("group", "spec", "index", "lead")},
    postgresql_with=ROOM,
)

gangs = table(
    "gangs",
    *key(id=Words),
    Column("workflow", Words, ForeignKey("workflows.id"), nullable=False, index=True),
    *needed(
        pool=Words,
        priority=OneOf(Priority),
        submitted_at=UtcDateTime,
        pod_sets=Encoded(tuple[PodSet, ...], alike=True),
        attempt=WHOLE,
        state=OneOf(GangState),
        placement=Encoded(Placement),
        waits_for=Encoded(Texts, alike=True),
    ),
    *optional(admitted_at=UtcDateTime, preempted_by=Words, law=OneOf(Law)),
    Column("refused", Prose, nullable=False, server_default=""),
    info={FIXED: ("workflow",)},
    postgresql_with=ROOM,
)
