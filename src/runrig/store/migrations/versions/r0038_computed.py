"""Indexes of workflows by how long they waited and ran, and of the specifications of arrays (`store.schema.computed`)."""

from alembic import op

revision = "0038"
down_revision = "0037"

DURATION = {
    "sqlite": (
        "(CASE WHEN json_valid(times) THEN {kept} - CASE WHEN json_extract(times, '$.now') = '{name}' THEN {since} + 1 ELSE 0 END"
        " ELSE 0 END)",
        "cast(round(coalesce(json_extract(times, '$.{}'), 0) * 1000000) AS integer)",
    ),
    "postgresql": (
        "({kept} - CASE WHEN times->>'now' = '{name}' THEN {since} + 1 ELSE 0 END)",
        "cast(round(CASE WHEN json_typeof(times->'{}') = 'number'"
        " THEN greatest(least(cast(times->>'{}' AS numeric), 1e12), 0) ELSE 0 END * 1000000) AS bigint)",
    ),
}
IS_ARRAY = {
    "sqlite": "(CASE WHEN json_valid(spec) THEN json_type(spec, '$.array') END = 'object')",
    "postgresql": "(json_typeof(spec->'array') = 'object')",
}


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    whole, micros = DURATION[dialect]
    for column, name in (("waited", "waited"), ("ran", "running")):
        spent = whole.format(name=name, kept=micros.replace("{}", name), since=micros.replace("{}", "since"))
        op.execute(f"CREATE INDEX ix_workflows_status_{column} ON workflows (status, {spent}, submit_time)")
    op.execute(f"CREATE INDEX ix_specifications_of_arrays ON specifications (hash) WHERE {IS_ARRAY[dialect]}")
