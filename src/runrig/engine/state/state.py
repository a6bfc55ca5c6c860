"""The state: what is declared and submitted, and the ledger. Only actions change it.

`apply` defines the effect of every action. Loading rows, replaying the event log and live decisions all use it, so they cannot
disagree. It records which rows an action changes, for the next commit.
"""

from collections import Counter
from collections.abc import Iterable

from runrig.domain.errors import At
from runrig.domain.nodes import Node
from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    Decision,
    Declaration,
    DropCohort,
    DropNode,
    MoveGroup,
    MoveTask,
    OwnerMove,
    PutCohort,
    PutLimits,
    PutNode,
    PutPool,
    Queue,
    Release,
    RestartTask,
    RetryTask,
    SetAside,
    SetFlavors,
    Submit,
    TryAgain,
    Unqueue,
    WorkflowMove,
)
from runrig.domain.records import Loaded, RowChange
from runrig.domain.replacing import replace
from runrig.domain.subjects import gang_id_of, workflow_of
from runrig.domain.transitions import TASK, check
from runrig.domain.workflows import Group, Status, Task, TaskKey, Workflow, left_out
from runrig.engine.placement.pod_slots import LastSlots, PodSlot
from runrig.engine.state import timing
from runrig.engine.state.attempts import began, new_attempt, queue_tasks, start_tasks, started_again, unqueue_tasks
from runrig.engine.state.counting import count
from runrig.engine.state.dependents import Dependents
from runrig.engine.state.left_alone import end_all, leave_alone, take_up
from runrig.engine.state.moves import group_decided, group_moved, task_moved, workflow_moved
from runrig.engine.state.rejections import flavors_freed, rejected_in, rejected_on
from runrig.engine.state.rows import changed_rows, rows_of
from runrig.engine.state.tables import ChangedRows, Tables


class State(Tables):
    """One server's working copy. Not thread-safe: the caller holds a lock.

    *fixed_nodes*: gangs that do not fit even in the empty cluster are rejected (rule P3). *topology*: pools may have topology
    keys.
    *on_hold*: workflows on hold.
    *taken_over*: nodes as the backend reported them when they were last adopted.
    *dependents*: an index of dependencies on other workflows (rule W5).
    """

    def __init__(self, *, fixed_nodes: bool = True, place: bool = True, topology: bool = True) -> None:
        super().__init__(place=place)
        self.fixed_nodes = fixed_nodes
        self.topology = topology
        self.taken_over: dict[str, Node] = {}
        self.on_hold: set[str] = set()
        self._spec_uses: Counter[str] = Counter()
        self.dependents = Dependents()
        self._slots = LastSlots()

    @classmethod
    def load(cls, loaded: Loaded, *, fixed_nodes: bool = True, place: bool = True, topology: bool = True) -> "State":
        """Builds the state from rows."""
        state = cls(fixed_nodes=fixed_nodes, place=place, topology=topology)
        state.revision = loaded.revision
        state.specs = dict(loaded.specs)
        state.numbers = dict(loaded.numbers)
        state.ledger.set_flavors(loaded.flavors)
        for cohort in loaded.cohorts:
            state.ledger.put_cohort(cohort)
        for pool in loaded.pools:
            state.ledger.put_pool(pool)
        for limits in loaded.limits:
            state.ledger.put_limits(limits)
        for node in loaded.nodes:
            state.nodes[node.name] = node
            state.ledger.put_node(node)
        state.workflows = {each.id: each for each in loaded.workflows}
        for each in loaded.workflows:
            count(state, each, 1)
        state.on_hold = {each.id for each in loaded.workflows if each.held_by is not None}
        state._spec_uses = Counter(each.spec_hash for each in loaded.workflows)
        for task in sorted(loaded.tasks, key=lambda each: each.key):
            state.put_task(task)
        for group in loaded.groups:
            state.put_group(group)
        for key, group in state.groups.items():
            for task in state.current_tasks(key) if group.attempt else ():
                if left_out(group, task):  # the pod was left out, so it only has rows of earlier attempts (rule A3)
                    del state.current[key][task.name]
        state.ledger.restore(loaded.gangs)
        state.budgets.load(loaded, state.ledger.entries.values())
        for workflow in loaded.workflows:
            state.dependents.put(state, workflow)
        state.aside = {each.id for each in loaded.workflows if each.set_aside}
        for gang in [each.gang.id for each in loaded.gangs if each.gang.workflow in state.aside]:
            state.ledger.leave_alone(gang)
        state._changed = ChangedRows()
        return state

    def slot(self, task: Task) -> PodSlot | None:
        """The pod's current slot in its gang; the attempt runs elsewhere if that node is lost. None: there are no nodes."""
        entry = self.ledger.entries.get(f"{task.workflow}/{task.group}")
        slots = [] if entry is None else self._slots.of(entry.placement, task.spec)
        return slots[task.index] if slots else None

    # ------------------------------------------------------------ changing

    def apply_all(self, actions: Iterable[Action], at: float) -> None:
        for action in actions:
            self.apply(action, at)

    def apply(self, action: Action, at: float) -> None:
        """Applies *action* at time *at*. Raises IllegalStep, and changes nothing, for actions that only a bug can cause."""
        match action:
            case MoveTask() | RetryTask() | RestartTask():
                self._move_task(action, at)
            case _ if isinstance(action, Declaration):
                self._declare(action, at)
            case Submit(workflow, groups):
                self._submit(workflow, groups)
            case _ if isinstance(action, OwnerMove):
                self._changed.spent.update(self.budgets.note(action, self.ledger.entries.values()))
            case MoveGroup(workflow, group):
                self.put_group(moved := group_moved(self.groups[workflow, group], action, at))
                self._put_workflow(*self.dependents.follow_element(self, moved))
            case _ if isinstance(action, WorkflowMove):
                self._move_workflow(action, at)
            case _:
                self.decide(action, at)
        if isinstance(action, timing.MOVES) and (row := self.workflows.get(workflow_of(action) or "")) is not None:
            kept = self.budgets.keep_back(self.pools, row)
            self._put_workflow(timing.timed(row, self.groups.statuses(row.id), at, paused=kept))

    def _put_workflow(self, *workflows: Workflow) -> None:
        for workflow in workflows:
            if workflow is not self.workflows[workflow.id]:
                self.workflows[workflow.id] = workflow
                self._changed.workflows.add(workflow.id)

    def _declare(self, action: Declaration, at: float) -> None:
        self.budgets.declare(action)
        match action:
            case SetFlavors(flavors):
                self._changed.flavors.update(self.flavors, (each.name for each in flavors))
                self.taken_over.clear()
                self.ledger.set_flavors(replace(each, position=position) for position, each in enumerate(flavors))
            case PutNode(node):
                before = self.nodes.get(node.name)
                self.nodes[node.name] = node
                self.taken_over.pop(node.name, None)
                self.ledger.put_node(node)
                self._changed.nodes.add(node.name)
                self._try_again({node.flavor} | ({before.flavor} if before else set()), at)
            case DropNode(name):
                before = self.nodes.pop(name)
                self.taken_over.pop(name, None)
                self.ledger.drop_node(name)
                self._changed.nodes.add(name)
                self._try_again({before.flavor}, at)
            case PutCohort(cohort):
                self.ledger.put_cohort(cohort)
                self._changed.cohorts.add(cohort.name)
            case DropCohort(before):
                self.ledger.drop_cohort(before.name)
                self._changed.cohorts.add(before.name)
            case PutLimits(limits):
                self.ledger.put_limits(limits)
                self._changed.limits.add(limits.user)
            case PutPool(pool):
                self.ledger.put_pool(pool)
                self._changed.pools.add(pool.name)
                self._all_again(rejected_in(self.ledger, pool.name.__eq__), at)

    def _try_again(self, flavors: set[str], at: float) -> None:
        """Nodes of *flavors* changed: retries gangs that could use them and that the cluster's scheduler refused (rule T7)."""
        self._all_again(rejected_on(self.ledger, flavors), at)

    def _all_again(self, gangs: Iterable[str], at: float) -> None:
        for gang in gangs:
            with At(gang.partition("/")[0]):
                self.decide(TryAgain(gang), at)

    def _submit(self, workflow: Workflow, groups: tuple[Group, ...]) -> None:
        self.workflows[workflow.id] = timing.submitted(workflow, paused=self.budgets.keep_back(self.pools, workflow))
        count(self, workflow, 1)
        self._spec_uses[workflow.spec_hash] += 1
        self.numbers[workflow.name] = max(workflow.number, self.numbers.get(workflow.name, 0))
        self._changed.workflows.add(workflow.id)
        for group in groups:
            self.put_group(group)
            new_attempt(self, group, Status.WAITING)
        self._put_workflow(*self.dependents.follow(self, workflow, submitted=True))

    def _move_workflow(self, action: WorkflowMove, at: float) -> None:
        before = self.workflows[action.workflow]
        if isinstance(action, SetAside):
            leave_alone(self, before.id)
        elif isinstance(action, Abandon):
            end_all(self, action, at)
        moved = self.workflows[action.workflow] = workflow_moved(before, action, at)
        if before.set_aside and not moved.set_aside:
            take_up(self, before.id)
        count(self, before, -1)
        count(self, moved, 1)
        (self.on_hold.discard if moved.held_by is None else self.on_hold.add)(moved.id)
        self._changed.workflows.add(action.workflow)
        self._put_workflow(*self.dependents.follow(self, moved))

    def _move_task(self, action: MoveTask | RetryTask | RestartTask, at: float) -> None:
        task = self.tasks[action.key]
        match action:
            case MoveTask():
                self.put_task(task_moved(task, action, at))
                if action.exit_code in timing.LOST:
                    self._put_workflow(timing.lost(self.workflows[task.workflow], began(self, task), at))
            case RetryTask():
                check(TASK, task.key, task.status, RetryTask, Status.RESCHEDULED)
                self.put_task(started_again(task, self.slot(task)))
            case RestartTask():
                check(TASK, task.key, task.status, RestartTask, task.status)
                self.put_task(replace(task, restarting=True))

    def decide(self, action: Decision, at: float) -> None:
        gang_id = gang_id_of(action)
        workflow, _, name = gang_id.partition("/")
        group = self.groups.get((workflow, name))
        moved = None if group is None else group_decided(group, action, at)
        left: set[str] = set()
        if isinstance(action, Release) and gang_id in self.ledger.entries:
            self._changed.gangs.update(waiting.gang.id for waiting in self.ledger.waiting_for(gang_id))
            left = flavors_freed(self.ledger.entries[gang_id])
        held = self.budgets.before(entry := self.ledger.entries.get(gang_id))
        self.ledger.apply(action, at)
        self._changed.spent.update(self.budgets.count(entry, held, at))
        self._changed.gangs.add(gang_id)
        if left:
            self._try_again(left, at)
        if group is None or moved is None or moved is group:
            return
        self.put_group(moved)
        self.dependents.put(self, self.workflows[workflow])
        if isinstance(action, Queue):
            queue_tasks(self, group)
        elif isinstance(action, Unqueue):
            unqueue_tasks(self, (workflow, name))
        elif isinstance(action, Admit):
            start_tasks(self, (workflow, name), action.placement)

    # ------------------------------------------------------------ rows

    def take_changes(self) -> tuple[RowChange, ...]:
        """Returns the rows that changed since the last call, and removes finished workflows from memory."""
        changed, self._changed = self._changed, ChangedRows()
        changes = tuple(changed_rows(self, changed))
        for id in sorted(changed.workflows):
            if self.workflows[id].status.finished:
                self._forget(id)
        return changes

    def _forget(self, workflow: str) -> None:
        for spec in self.spec_of(workflow).groups:
            key = (workflow, spec.name)
            del self.groups[key]
            self._on_nodes.pop(key, None)
            again = self.current.pop(key, None)
            for name in [task.pod_name(index) for task in spec.tasks for index in range(task.pods)]:
                for retry in range(1 if again is None else len(self.attempts(workflow, name))):
                    self.tasks.discard(TaskKey(workflow, name, retry))
        spec_hash = self.workflows.pop(workflow).spec_hash
        self._spec_uses[spec_hash] -= 1
        if not self._spec_uses[spec_hash]:
            del self.specs[spec_hash], self._spec_uses[spec_hash]

    def rows(self) -> Loaded:
        return rows_of(self)
