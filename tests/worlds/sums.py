"""The kept sums of workflows, and the same counted again, in Python, from every row."""

from collections import Counter
from pathlib import Path

from sqlalchemy import select

from runrig.domain.times import Moment
from runrig.store import SqlStore, schema
from runrig.store.rows import KINDS

_AMOUNTS = ("workflows", "waited", "ran", "waiting", "waiting_since", "running", "running_since")


def check_sums(store: SqlStore) -> None:
    """Fails unless the sums are what counting again gives."""
    with store.transactions.reading() as connection:
        kept = connection.execute(select(schema.workflow_sums)).mappings().all()
        rows = [KINDS["Workflow"].of_row(row) for row in connection.execute(select(schema.workflows)).mappings()]
    again: Counter[tuple[object, ...]] = Counter()
    for each in rows:
        key, times = (each.pool, each.submitted_by, each.status, each.priority), each.times
        again[*key, "workflows"] += 1
        if times is not None:
            again[*key, "waited"] += int(times.waited * 1000 + 0.5)
            again[*key, "ran"] += int(times.running * 1000 + 0.5)
            if times.now in (Moment.WAITED, Moment.RUNNING):
                name = "waiting" if times.now is Moment.WAITED else "running"
                again[*key, name] += 1
                again[*key, f"{name}_since"] += int(times.since * 1000 + 0.5)
    found = {
        (row["pool"], row["submitted_by"], row["status"], row["priority"], name): row[name]
        for row in kept
        for name in _AMOUNTS
    }
    assert {key: value for key, value in found.items() if value} == {key: each for key, each in again.items() if each}


def check_sums_in(database: Path) -> None:
    store = SqlStore.look(database)
    check_sums(store)
    store.close()
