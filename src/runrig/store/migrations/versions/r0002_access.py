"""The tables of 0.2.0: users, roles, tokens, their audit trail; the leader; pruned workflows."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import TIME, WHOLE, WORD, WORDS

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _users()
    _tokens()
    _access_events()
    _secrets()
    _leader()
    _pruned()


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("name", WORDS, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
    op.create_table(
        "grants",
        sa.Column("user", WORDS, nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("pool", WORDS, nullable=False),
        sa.Column("granted_at", TIME, nullable=False),
        sa.Column("granted_by", WORDS, nullable=False),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name=op.f("fk_grants_user")),
        sa.PrimaryKeyConstraint("user", "kind", "pool", name=op.f("pk_grants")),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", WORDS, nullable=False),
        sa.Column("name", WORDS, nullable=False),
        sa.Column("user", WORDS, nullable=False),
        sa.Column("hash", WORDS, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=True),
        sa.Column("last_used_at", TIME, nullable=True),
        sa.Column("revoked_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name=op.f("fk_tokens_user")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_index(op.f("ix_tokens_user"), "tokens", ["user"], unique=False)


def _access_events() -> None:
    op.create_table(
        "access_events",
        sa.Column("number", WHOLE, autoincrement=False, nullable=False),
        sa.Column("time", TIME, nullable=False),
        sa.Column("actor", WORDS, nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("user", WORDS, nullable=False),
        sa.Column("subject", WORDS, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_access_events")),
    )
    op.create_index(op.f("ix_access_events_user_number"), "access_events", ["user", "number"], unique=False)


def _secrets() -> None:
    op.create_table(
        "secrets",
        sa.Column("name", WORDS, nullable=False),
        sa.Column("value", WORDS, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )


def _leader() -> None:
    with op.batch_alter_table("meta") as meta:
        meta.add_column(sa.Column("epoch", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "leader",
        sa.Column("id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("process", WHOLE, nullable=False),
        sa.Column("host", WORDS, nullable=False),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_leader_one_leader")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
    )


def _pruned() -> None:
    op.create_table(
        "past_numbers",
        sa.Column("name", WORDS, nullable=False),
        sa.Column("number", WHOLE, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_past_numbers")),
    )
    op.create_table(
        "pruned",
        sa.Column("workflow", WORDS, nullable=False),
        sa.PrimaryKeyConstraint("workflow", name=op.f("pk_pruned")),
    )
    op.create_index(op.f("ix_workflows_end_time"), "workflows", ["end_time"], unique=False)
    op.create_index(op.f("ix_workflows_spec_hash"), "workflows", ["spec_hash"], unique=False)
