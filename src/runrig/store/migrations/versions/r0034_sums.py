"""Sums of workflows by pool, user, status and priority."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import WHOLE, WORDS

revision = "0034"
down_revision = "0033"

ONE_OF = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")
AMOUNTS = ("workflows", "waited", "ran", "waiting", "waiting_since", "running", "running_since")
KEY = "pool, submitted_by, status, priority"
NOW = {
    "sqlite": "CASE WHEN json_valid(times) THEN json_extract(times, '$.now') END",
    "postgresql": "(times->>'now')",
}
SECONDS = {
    "sqlite": "max(0, min(cast(coalesce(CASE WHEN json_valid(times) THEN json_extract(times, '$.{}') END, 0) AS double precision), 1e12))",
    "postgresql": "cast(CASE WHEN json_typeof(times->'{}') = 'number' THEN greatest(least(cast(times->>'{}' AS numeric), 1e12), 0)"
    " ELSE 0 END AS double precision)",
}


def upgrade() -> None:
    op.create_table(
        "workflow_sums",
        sa.Column("pool", WORDS, nullable=False),
        sa.Column("submitted_by", WORDS, nullable=False),
        sa.Column("status", ONE_OF, nullable=False),
        sa.Column("priority", ONE_OF, nullable=False),
        *(sa.Column(name, WHOLE, nullable=False) for name in AMOUNTS),
        sa.PrimaryKeyConstraint("pool", "submitted_by", "status", "priority", name=op.f("pk_workflow_sums")),
    )
    op.execute(f"INSERT INTO workflow_sums ({KEY}, {', '.join(AMOUNTS)}) {_counted()}")


def _counted() -> str:
    dialect = op.get_bind().dialect.name

    def ms(name: str) -> str:
        return f"cast(round({SECONDS[dialect].replace('{}', name)} * 1000) AS bigint)"

    def live(name: str, amount: str) -> str:
        return f"sum(CASE WHEN {NOW[dialect]} = '{name}' THEN {amount} ELSE 0 END)"

    kept = f"count(*), sum({ms('waited')}), sum({ms('running')})"
    waiting, running = (f"{live(each, '1')}, {live(each, ms('since'))}" for each in ("waited", "running"))
    return f"SELECT {KEY}, {kept}, {waiting}, {running} FROM workflows GROUP BY {KEY}"  # noqa: S608  No values of users.
