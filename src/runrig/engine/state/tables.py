"""The tables of a state, and changes of single rows."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappush

from runrig.domain.budgets import Scope
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.workflows import Group, GroupKey, GroupSpec, Status, Task, TaskKey, TaskSpec, Workflow, WorkflowSpec
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.state.budgets import Budgets
from runrig.engine.state.deadlines import GroupDeadline, deadlines_of
from runrig.engine.state.group_table import GroupTable
from runrig.engine.state.task_table import TaskTable

ON_NODES = (Status.INITIALIZING, Status.RUNNING)


@dataclass(slots=True)
class ChangedRows:
    """Keys of rows, one set per kind of record: gangs by id, everything else as in `domain.records.RowChange`."""

    flavors: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cohorts: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    limits: set[str] = field(default_factory=set)
    spent: set[Scope] = field(default_factory=set)
    workflows: set[str] = field(default_factory=set)
    groups: set[GroupKey] = field(default_factory=set)
    tasks: set[TaskKey] = field(default_factory=set)
    gangs: set[str] = field(default_factory=set)


class Tables:
    """The base of `State`.

    *active*: attempts on nodes; *unsteady*: those of them that are not running yet, or that restart.
    *current*: per group, the latest attempt of each pod. Only kept once some pod has a second attempt, which is rare.
    *alive*: per pool, number of workflows that have not ended. *waiting*: per top-level pool and user, those that are PENDING;
    with `EVERYWHERE`, over all pools.
    *aside*: workflows on hold that were set aside (rule W8).
    *deadlines*: a heap; outdated entries are skipped when they are due.
    """

    def __init__(self, *, place: bool) -> None:
        self.revision = 0
        self.ledger = Ledger(place=place, user_of=self._user_of)
        self.nodes: dict[str, Node] = {}
        self.workflows: dict[str, Workflow] = {}
        self.groups = GroupTable()
        self.tasks = TaskTable()
        self.specs: dict[str, WorkflowSpec] = {}
        self.numbers: dict[str, int] = {}
        self.active: set[TaskKey] = set()
        self.unsteady: set[TaskKey] = set()
        self._on_nodes: Counter[GroupKey] = Counter()
        self.alive: Counter[str] = Counter()
        self.waiting: Counter[tuple[str, str]] = Counter()
        self.aside: set[str] = set()
        self.current: dict[GroupKey, dict[str, int]] = {}
        self.deadlines: list[GroupDeadline] = []
        self.budgets = Budgets()
        self._changed = ChangedRows()

    @property
    def flavors(self) -> Mapping[str, Flavor]:
        return self.ledger.flavors

    @property
    def cohorts(self) -> Mapping[str, Cohort]:
        return self.ledger.cohorts

    @property
    def pools(self) -> Mapping[str, Pool]:
        return self.ledger.pools

    def _user_of(self, workflow: str) -> str:
        return self.workflows[workflow].submitted_by if workflow in self.workflows else ""

    def spec_of(self, workflow: str) -> WorkflowSpec:
        return self.specs[self.workflows[workflow].spec_hash]

    def group_spec(self, key: GroupKey) -> GroupSpec:
        return self.spec_of(key[0]).group(key[1])

    def task_spec(self, task: Task) -> TaskSpec:
        group = self.group_spec((task.workflow, task.group))
        return next(spec for spec in group.tasks if spec.name == task.spec)

    def current_tasks(self, key: GroupKey) -> list[Task]:
        """The latest attempt of each pod of a group, by name. O(its pods)."""
        pods = self.current.get(key)
        if pods is not None:
            return [self.tasks[TaskKey(key[0], name, retry)] for name, retry in sorted(pods.items())]
        firsts = (self.tasks.find(TaskKey(key[0], name, 0)) for name in sorted(self._pod_names(key)))
        return [task for task in firsts if task is not None]

    def _pod_names(self, key: GroupKey) -> Iterator[str]:
        return (spec.pod_name(index) for spec in self.group_spec(key).tasks for index in range(spec.pods))

    def on_nodes(self, key: GroupKey) -> int:
        """How many pods of a group are INITIALIZING or RUNNING."""
        return self._on_nodes[key]

    def attempts(self, workflow: str, pod: str) -> list[Task]:
        """Every attempt of a pod, first to last."""
        found: list[Task] = []
        while (key := TaskKey(workflow, pod, len(found))) in self.tasks:
            found.append(self.tasks[key])
        return found

    def groups_of(self, workflow: str) -> list[Group]:
        """The groups of a workflow, in the order of the file."""
        return [self.groups[workflow, each.name] for each in self.spec_of(workflow).groups]

    def put_task(self, task: Task) -> None:
        key, group = task.key, (task.workflow, task.group)
        if task.retry_id or group in self.current:
            if group not in self.current:
                self.current[group] = {
                    name: 0 for name in self._pod_names(group) if TaskKey(group[0], name, 0) in self.tasks
                }
            self.current[group][task.name] = task.retry_id
        self.tasks[key] = task
        if (on_nodes := task.status in ON_NODES) != (key in self.active):
            self._on_nodes[group] += 1 if on_nodes else -1
            (self.active.add if on_nodes else self.active.remove)(key)
        unsteady = on_nodes and (task.restarting or task.status is not Status.RUNNING)
        (self.unsteady.add if unsteady else self.unsteady.discard)(key)
        self._changed.tasks.add(key)

    def put_group(self, group: Group) -> None:
        key = (group.workflow, group.name)
        spec, before = self.spec_of(group.workflow), self.groups.get(key)
        known = () if before is None else deadlines_of(spec, before)
        for deadline in [each for each in deadlines_of(spec, group) if each not in known]:
            heappush(self.deadlines, deadline)
        self.groups[key] = group
        self._changed.groups.add(key)

    def drop_task(self, task: Task) -> None:
        del self.tasks[task.key]
        self.current.get((task.workflow, task.group), {}).pop(task.name, None)
        self._changed.tasks.add(task.key)
