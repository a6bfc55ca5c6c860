"""The tables of 0.1.0."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import (
    FLAG,
    JSON,
    LARGE,
    PROSE,
    REAL,
    TIME,
    WHOLE,
    WORD,
    WORDS,
    key,
    needed,
    optional,
)

revision = "0001"
down_revision = None

# Leaves space on each page for new versions of rows, so that such an update writes no index.
ROOM = {"fillfactor": 50}


def upgrade() -> None:
    _cluster()
    _work()
    _log()


def _cluster() -> None:
    op.create_table("flavors", *key(name=WORDS), *needed(position=WHOLE, node_labels=JSON, taints=JSON, allow=JSON))
    op.create_table(
        "nodes",
        *key(name=WORDS),
        *needed(resources=JSON, flavor=WORDS, labels=JSON, taints=JSON, ready=FLAG),
    )
    op.create_table("cohorts", *key(name=WORDS), *optional(parent=WORDS), *needed(quotas=JSON, weight=WHOLE))
    op.create_table(
        "pools",
        *key(name=WORDS),
        *needed(quotas=JSON),
        *optional(cohort=WORDS),
        *needed(state=WORD),
        *optional(parent=WORDS, subpool_name=WORDS),
        *needed(weight=WHOLE, queueing=WORD, grace_s=REAL, flavors=JSON, topology_keys=JSON),
        *optional(default_platform=WORDS),
        *needed(default_exit_actions=JSON, description=PROSE),
        sa.ForeignKeyConstraint(["parent"], ["pools.name"]),
        sa.UniqueConstraint("parent", "subpool_name"),
        sa.CheckConstraint("parent IS NULL OR name = parent || '--' || subpool_name", name="canonical"),
        sa.CheckConstraint("state IN ('ACTIVE', 'DELETING', 'ARCHIVED')", name="state"),
        sa.CheckConstraint("subpool_name NOT LIKE '%--%'", name="delimiter"),
        sa.CheckConstraint("(parent IS NULL) = (subpool_name IS NULL)", name="both"),
    )


def _work() -> None:
    op.create_table("specifications", *key(hash=WORDS), *needed(text=PROSE, template=PROSE, spec=JSON))
    op.create_table(
        "workflows",
        *key(id=WORDS),
        *needed(uuid=WORDS, name=WORDS, number=WHOLE, pool=WORDS, priority=WORD, submitted_by=WORDS),
        *needed(submit_time=TIME, spec_hash=WORDS, status=WORD, labels=JSON),
        *optional(parent=WORDS, cancelled_by=WORDS),
        *needed(failure_message=PROSE),
        *optional(start_time=TIME, end_time=TIME),
        sa.ForeignKeyConstraint(["pool"], ["pools.name"]),
        sa.ForeignKeyConstraint(["spec_hash"], ["specifications.hash"]),
        sa.UniqueConstraint("name", "number"),
        sa.UniqueConstraint("uuid"),
    )
    for first in (["pool", "status"], ["pool"], ["status"], [], ["submitted_by"]):
        op.create_index(None, "workflows", [*first, "submit_time"])
    op.create_table(
        "groups",
        *key(workflow=WORDS, name=WORDS),
        *needed(status=WORD, attempt=WHOLE, preemptions=WHOLE),
        *optional(stopping=WORD),
        *needed(failure_message=PROSE),
        *optional(queued_time=TIME, start_time=TIME, end_time=TIME),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"]),
        postgresql_with=ROOM,
    )
    op.create_table(
        "tasks",
        *key(workflow=WORDS, name=WORDS, retry_id=WHOLE),
        *needed(group=WORDS, spec=WORDS, index=WHOLE, lead=FLAG, status=WORD),
        *optional(node=WORDS),
        *needed(gpus=JSON),
        *optional(exit_code=WHOLE),
        *needed(failure_message=PROSE),
        *optional(start_time=TIME, end_time=TIME),
        *needed(restarting=FLAG),
        sa.ForeignKeyConstraint(["workflow", "group"], ["groups.workflow", "groups.name"]),
        postgresql_with=ROOM,
    )
    op.create_table(
        "gangs",
        *key(id=WORDS),
        *needed(workflow=WORDS, pool=WORDS, priority=WORD, submitted_at=TIME, pod_sets=JSON),
        *needed(attempt=WHOLE, state=WORD, placement=JSON, waits_for=JSON),
        *optional(admitted_at=TIME, preempted_by=WORDS, law=WORD),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"]),
        postgresql_with=ROOM,
    )
    op.create_index(None, "gangs", ["workflow"])


def _log() -> None:
    op.create_table(
        "events",
        *key(revision=LARGE, seq=WHOLE),
        *needed(time=TIME, actor=WORDS, kind=WORDS, action=JSON, law=WORDS),
        *optional(workflow=WORDS, pool=WORDS),
    )
    op.create_index(None, "events", ["pool", "revision", "seq"])
    op.create_index(None, "events", ["workflow", "revision", "seq"])
    one_row = sa.CheckConstraint("id = 1", name="one_row")
    meta = op.create_table("meta", *key(id=WHOLE), *needed(revision=LARGE), one_row)
    op.bulk_insert(meta, [{"id": 1, "revision": 0}])
