"""Sums of workflows by pool, user, status and priority."""

from alembic import op

from runrig.store.migrations.types import WHOLE, WORD, WORDS, key, needed

revision = "0034"
down_revision = "0033"

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
        *key(pool=WORDS, submitted_by=WORDS, status=WORD, priority=WORD),
        *needed(**dict.fromkeys(AMOUNTS, WHOLE)),
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
