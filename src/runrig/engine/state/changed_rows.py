"""Which rows were changed by actions since the last commit, which writes them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.records import GangRow, RowChange
from runrig.domain.workflows import Group, GroupKey, Task, TaskKey, Workflow
from runrig.engine.ledger.queue import Entry


@dataclass(slots=True)
class ChangedRows:
    """Keys of rows, one set per kind of record: gangs by id, everything else as in `domain.records.RowChange`."""

    flavors: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cohorts: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    workflows: set[str] = field(default_factory=set)
    groups: set[GroupKey] = field(default_factory=set)
    tasks: set[TaskKey] = field(default_factory=set)
    gangs: set[str] = field(default_factory=set)

    def of_cluster(
        self,
        flavors: Mapping[str, Flavor],
        nodes: Mapping[str, Node],
        cohorts: Mapping[str, Cohort],
        pools: Mapping[str, Pool],
    ) -> Iterator[RowChange]:
        """Yields the declared rows in their current form. A row that no longer exists is deleted."""
        yield from (RowChange("Cohort", (name,), cohorts.get(name)) for name in sorted(self.cohorts))
        yield from (RowChange("Flavor", (name,), flavors.get(name)) for name in sorted(self.flavors))
        yield from (RowChange("Node", (name,), nodes.get(name)) for name in sorted(self.nodes))
        yield from (RowChange("Pool", (name,), pools.get(name)) for name in sorted(self.pools))

    def of_work(
        self,
        workflows: Mapping[str, Workflow],
        groups: Mapping[GroupKey, Group],
        tasks: Mapping[TaskKey, Task],
        entries: Mapping[str, Entry],
    ) -> Iterator[RowChange]:
        """Yields the rows of workflows in their current form. A row that no longer exists is deleted."""
        for id in sorted(self.gangs):
            entry = entries.get(id)
            yield RowChange("GangRow", (id,), None if entry is None else gang_row(entry))
        yield from (RowChange("Group", key, groups.get(key)) for key in sorted(self.groups))
        yield from (RowChange("Task", tuple(key), tasks.get(key)) for key in sorted(self.tasks))
        yield from (RowChange("Workflow", (id,), workflows.get(id)) for id in sorted(self.workflows))


def gang_row(entry: Entry) -> GangRow:
    """The row of *entry*."""
    return GangRow(
        entry.gang,
        entry.state,
        entry.placement,
        entry.waits_for,
        entry.admitted_at,
        entry.preempted_by,
        entry.law,
    )
