"""The tables of 0.1.0."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE, TIME, WHOLE, WORD, WORDS

revision = "0001"
down_revision = None

JSON = sa.JSON(none_as_null=True)
# Leaves space on each page for new versions of rows, so that such an update writes no index.
ROOM = {"fillfactor": 50}


def upgrade() -> None:
    _flavors()
    _nodes()
    _cohorts()
    _pools()
    _specifications()
    _workflows()
    _groups()
    _tasks()
    _gangs()
    _events()
    _meta()


def _flavors() -> None:
    op.create_table(
        "flavors",
        sa.Column("name", WORDS, nullable=False),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("node_labels", JSON, nullable=False),
        sa.Column("taints", JSON, nullable=False),
        sa.Column("allow", JSON, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_flavors")),
    )


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", WORDS, nullable=False),
        sa.Column("resources", JSON, nullable=False),
        sa.Column("flavor", WORDS, nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("taints", JSON, nullable=False),
        sa.Column("ready", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )


def _cohorts() -> None:
    op.create_table(
        "cohorts",
        sa.Column("name", WORDS, nullable=False),
        sa.Column("parent", WORDS, nullable=True),
        sa.Column("quotas", JSON, nullable=False),
        sa.Column("weight", WHOLE, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cohorts")),
    )


def _pools() -> None:
    op.create_table(
        "pools",
        sa.Column("name", WORDS, nullable=False),
        sa.Column("quotas", JSON, nullable=False),
        sa.Column("cohort", WORDS, nullable=True),
        sa.Column("state", WORD, nullable=False),
        sa.Column("parent", WORDS, nullable=True),
        sa.Column("subpool_name", WORDS, nullable=True),
        sa.Column("weight", WHOLE, nullable=False),
        sa.Column("queueing", WORD, nullable=False),
        sa.Column("grace_s", sa.Double(), nullable=False),
        sa.Column("flavors", JSON, nullable=False),
        sa.Column("topology_keys", JSON, nullable=False),
        sa.Column("default_platform", WORDS, nullable=True),
        sa.Column("default_exit_actions", JSON, nullable=False),
        sa.Column("description", PROSE, nullable=False),
        sa.CheckConstraint("parent IS NULL OR name = parent || '--' || subpool_name", name=op.f("ck_pools_canonical")),
        sa.CheckConstraint("state IN ('ACTIVE', 'DELETING', 'ARCHIVED')", name=op.f("ck_pools_state")),
        sa.CheckConstraint("subpool_name NOT LIKE '%--%'", name=op.f("ck_pools_delimiter")),
        sa.CheckConstraint("(parent IS NULL) = (subpool_name IS NULL)", name=op.f("ck_pools_both")),
        sa.ForeignKeyConstraint(["parent"], ["pools.name"], name=op.f("fk_pools_parent")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_pools")),
        sa.UniqueConstraint("parent", "subpool_name", name=op.f("uq_pools_parent_subpool_name")),
    )


def _specifications() -> None:
    op.create_table(
        "specifications",
        sa.Column("hash", WORDS, nullable=False),
        sa.Column("text", PROSE, nullable=False),
        sa.Column("template", PROSE, nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_specifications")),
    )


def _workflows() -> None:
    op.create_table(
        "workflows",
        sa.Column("id", WORDS, nullable=False),
        sa.Column("uuid", WORDS, nullable=False),
        sa.Column("name", WORDS, nullable=False),
        sa.Column("number", WHOLE, nullable=False),
        sa.Column("pool", WORDS, nullable=False),
        sa.Column("priority", WORD, nullable=False),
        sa.Column("submitted_by", WORDS, nullable=False),
        sa.Column("submit_time", TIME, nullable=False),
        sa.Column("spec_hash", WORDS, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("parent", WORDS, nullable=True),
        sa.Column("cancelled_by", WORDS, nullable=True),
        sa.Column("failure_message", PROSE, nullable=False),
        sa.Column("start_time", TIME, nullable=True),
        sa.Column("end_time", TIME, nullable=True),
        sa.ForeignKeyConstraint(["pool"], ["pools.name"], name=op.f("fk_workflows_pool")),
        sa.ForeignKeyConstraint(["spec_hash"], ["specifications.hash"], name=op.f("fk_workflows_spec_hash")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflows")),
        sa.UniqueConstraint("name", "number", name=op.f("uq_workflows_name_number")),
        sa.UniqueConstraint("uuid", name=op.f("uq_workflows_uuid")),
    )
    op.create_index(
        op.f("ix_workflows_pool_status_submit_time"), "workflows", ["pool", "status", "submit_time"], unique=False
    )
    op.create_index(op.f("ix_workflows_pool_submit_time"), "workflows", ["pool", "submit_time"], unique=False)
    op.create_index(op.f("ix_workflows_status_submit_time"), "workflows", ["status", "submit_time"], unique=False)
    op.create_index(op.f("ix_workflows_submit_time"), "workflows", ["submit_time"], unique=False)
    op.create_index(
        op.f("ix_workflows_submitted_by_submit_time"), "workflows", ["submitted_by", "submit_time"], unique=False
    )


def _groups() -> None:
    op.create_table(
        "groups",
        sa.Column("workflow", WORDS, nullable=False),
        sa.Column("name", WORDS, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("attempt", WHOLE, nullable=False),
        sa.Column("preemptions", WHOLE, nullable=False),
        sa.Column("stopping", WORD, nullable=True),
        sa.Column("failure_message", PROSE, nullable=False),
        sa.Column("queued_time", TIME, nullable=True),
        sa.Column("start_time", TIME, nullable=True),
        sa.Column("end_time", TIME, nullable=True),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"], name=op.f("fk_groups_workflow")),
        sa.PrimaryKeyConstraint("workflow", "name", name=op.f("pk_groups")),
        postgresql_with=ROOM,
    )


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("workflow", WORDS, nullable=False),
        sa.Column("name", WORDS, nullable=False),
        sa.Column("retry_id", WHOLE, nullable=False),
        sa.Column("group", WORDS, nullable=False),
        sa.Column("spec", WORDS, nullable=False),
        sa.Column("index", WHOLE, nullable=False),
        sa.Column("lead", sa.Boolean(), nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("node", WORDS, nullable=True),
        sa.Column("gpus", JSON, nullable=False),
        sa.Column("exit_code", WHOLE, nullable=True),
        sa.Column("failure_message", PROSE, nullable=False),
        sa.Column("start_time", TIME, nullable=True),
        sa.Column("end_time", TIME, nullable=True),
        sa.Column("restarting", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workflow", "group"], ["groups.workflow", "groups.name"], name=op.f("fk_tasks_workflow_group")
        ),
        sa.PrimaryKeyConstraint("workflow", "name", "retry_id", name=op.f("pk_tasks")),
        postgresql_with=ROOM,
    )


def _gangs() -> None:
    op.create_table(
        "gangs",
        sa.Column("id", WORDS, nullable=False),
        sa.Column("workflow", WORDS, nullable=False),
        sa.Column("pool", WORDS, nullable=False),
        sa.Column("priority", WORD, nullable=False),
        sa.Column("submitted_at", TIME, nullable=False),
        sa.Column("pod_sets", JSON, nullable=False),
        sa.Column("attempt", WHOLE, nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("placement", JSON, nullable=False),
        sa.Column("waits_for", JSON, nullable=False),
        sa.Column("admitted_at", TIME, nullable=True),
        sa.Column("preempted_by", WORDS, nullable=True),
        sa.Column("law", WORD, nullable=True),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"], name=op.f("fk_gangs_workflow")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gangs")),
        postgresql_with=ROOM,
    )
    op.create_index(op.f("ix_gangs_workflow"), "gangs", ["workflow"], unique=False)


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", WHOLE, autoincrement=False, nullable=False),
        sa.Column("time", TIME, nullable=False),
        sa.Column("actor", WORDS, nullable=False),
        sa.Column("kind", WORDS, nullable=False),
        sa.Column("action", JSON, nullable=False),
        sa.Column("law", WORDS, nullable=False),
        sa.Column("workflow", WORDS, nullable=True),
        sa.Column("pool", WORDS, nullable=True),
        sa.PrimaryKeyConstraint("revision", "seq", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_pool_revision_seq"), "events", ["pool", "revision", "seq"], unique=False)
    op.create_index(op.f("ix_events_workflow_revision_seq"), "events", ["workflow", "revision", "seq"], unique=False)


def _meta() -> None:
    meta = op.create_table(
        "meta",
        sa.Column("id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_meta_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_meta")),
    )
    op.bulk_insert(meta, [{"id": 1, "revision": 0}])
