"""The rows of a state: all of them, and those changed by actions since the last commit, which writes them."""

from collections.abc import Iterator

from runrig.domain.records import GangRow, Loaded, RowChange
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.tables import ChangedRows, Tables


def changed_rows(state: Tables, changed: ChangedRows) -> Iterator[RowChange]:
    """Yields the rows in their current form. A row that no longer exists is deleted."""
    yield from (RowChange("Cohort", (name,), state.cohorts.get(name)) for name in sorted(changed.cohorts))
    declared = state.ledger.users.declared
    yield from (RowChange("Limits", (user,), declared.get(user)) for user in sorted(changed.limits))
    spent = state.budgets.spent
    yield from (RowChange("Spent", scope, spent.get(scope)) for scope in sorted(changed.spent))
    yield from (RowChange("Flavor", (name,), state.flavors.get(name)) for name in sorted(changed.flavors))
    yield from (RowChange("Node", (name,), state.nodes.get(name)) for name in sorted(changed.nodes))
    yield from (RowChange("Pool", (name,), state.pools.get(name)) for name in sorted(changed.pools))
    for id in sorted(changed.gangs):
        entry = state.ledger.entries.get(id)
        yield RowChange("GangRow", (id,), None if entry is None else gang_row(entry))
    yield from (RowChange("Group", key, state.groups.get(key)) for key in sorted(changed.groups))
    yield from (RowChange("Task", tuple(key), state.tasks.get(key)) for key in sorted(changed.tasks))
    yield from (RowChange("Workflow", (id,), state.workflows.get(id)) for id in sorted(changed.workflows))


def rows_of(state: Tables) -> Loaded:
    """All rows, sorted, as a store would load them."""
    return Loaded(
        revision=state.revision,
        flavors=tuple(state.flavors.values()),
        nodes=tuple(node for _, node in sorted(state.nodes.items())),
        cohorts=tuple(cohort for _, cohort in sorted(state.cohorts.items())),
        pools=tuple(pool for _, pool in sorted(state.pools.items())),
        workflows=tuple(each for _, each in sorted(state.workflows.items())),
        groups=tuple(group for _, group in sorted(state.groups.items())),
        tasks=tuple(task for _, task in sorted(state.tasks.items())),
        gangs=tuple(gang_row(entry) for _, entry in sorted(state.ledger.entries.items())),
        specs=dict(sorted(state.specs.items())),
        numbers=dict(sorted(state.numbers.items())),
        limits=tuple(limits for _, limits in sorted(state.ledger.users.declared.items())),
        spent=tuple(spent for _, spent in sorted(state.budgets.spent.items())),
    )


def gang_row(entry: Entry) -> GangRow:
    return GangRow(
        entry.gang,
        entry.state,
        entry.placement,
        entry.waits_for,
        entry.admitted_at,
        entry.preempted_by,
        entry.law,
    )
