"""The parts of a state that functions outside it use."""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.workflows import Group, GroupKey, GroupSpec, Task, Workflow, WorkflowSpec
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.state.budgets import Budgets
from runrig.engine.state.deadlines import GroupDeadline
from runrig.engine.state.group_table import GroupTable
from runrig.engine.state.task_table import TaskTable


class Tables(Protocol):
    """A part of `State`; see there for the meaning of each field."""

    alive: Counter[str]
    aside: set[str]
    budgets: Budgets
    deadlines: list[GroupDeadline]
    groups: GroupTable
    ledger: Ledger
    nodes: dict[str, Node]
    numbers: dict[str, int]
    revision: int
    specs: dict[str, WorkflowSpec]
    tasks: TaskTable
    waiting: Counter[tuple[str, str]]
    workflows: dict[str, Workflow]

    @property
    def flavors(self) -> Mapping[str, Flavor]: ...

    @property
    def cohorts(self) -> Mapping[str, Cohort]: ...

    @property
    def pools(self) -> Mapping[str, Pool]: ...

    def spec_of(self, workflow: str) -> WorkflowSpec: ...

    def group_spec(self, key: GroupKey) -> GroupSpec: ...

    def groups_of(self, workflow: str) -> list[Group]: ...

    def current_tasks(self, key: GroupKey) -> list[Task]: ...

    def attempts(self, workflow: str, pod: str) -> list[Task]: ...

    def put_task(self, task: Task) -> None: ...

    def drop_task(self, task: Task) -> None: ...

    def put_group(self, group: Group) -> None: ...
