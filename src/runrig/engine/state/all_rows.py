"""A whole state as rows."""

from collections.abc import Mapping
from typing import Protocol

from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.records import Loaded
from runrig.domain.workflows import Workflow, WorkflowSpec
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.state.changed_rows import gang_row
from runrig.engine.state.group_table import GroupTable
from runrig.engine.state.task_table import TaskTable


class Whole(Protocol):
    """The parts of a state that are stored as rows."""

    revision: int
    ledger: Ledger
    nodes: dict[str, Node]
    workflows: dict[str, Workflow]
    groups: GroupTable
    tasks: TaskTable
    specs: dict[str, WorkflowSpec]
    numbers: dict[str, int]

    @property
    def flavors(self) -> Mapping[str, Flavor]: ...

    @property
    def cohorts(self) -> Mapping[str, Cohort]: ...

    @property
    def pools(self) -> Mapping[str, Pool]: ...


def rows_of(state: Whole) -> Loaded:
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
    )
