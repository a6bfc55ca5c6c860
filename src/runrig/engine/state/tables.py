"""The part of a state that functions outside it use."""

from collections import Counter
from typing import Protocol

from runrig.domain.workflows import Group, GroupKey, GroupSpec, Task, WorkflowSpec
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.state.deadlines import GroupDeadline


class Tables(Protocol):
    """A part of `State`; see there for the meaning of each field."""

    alive: Counter[str]
    aside: set[str]
    deadlines: list[GroupDeadline]
    ledger: Ledger
    waiting: Counter[tuple[str, str]]

    def spec_of(self, workflow: str) -> WorkflowSpec: ...

    def group_spec(self, key: GroupKey) -> GroupSpec: ...

    def groups_of(self, workflow: str) -> list[Group]: ...

    def current_tasks(self, key: GroupKey) -> list[Task]: ...

    def attempts(self, workflow: str, pod: str) -> list[Task]: ...

    def put_task(self, task: Task) -> None: ...

    def drop_task(self, task: Task) -> None: ...

    def put_group(self, group: Group) -> None: ...
