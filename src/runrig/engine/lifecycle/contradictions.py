"""Finds rows that contradict each other, by comparing values that are stored twice or follow from other rows.

No other check finds damage that leaves values of the right type, such as a GPU used by two gangs or a status that does
not match its tasks. Servers never store contradictions, because everything compared here holds after each plan.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from runrig.domain.gangs import HOLDING, IN_QUEUE, GangState
from runrig.domain.quantities import counted
from runrig.domain.records import GangRow, Loaded
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import UNDER_WAY, Group, GroupSpec, Status, Task, Workflow
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.placement.pod_slots import slots_of
from runrig.engine.state.budgets import Budgets

_GANG_OF = {Status.SCHEDULING: IN_QUEUE, Status.INITIALIZING: HOLDING, Status.RUNNING: HOLDING}
"""Status of a group → the states that its gang may have; groups with another status have no gang."""
_BEFORE_NODES = (Status.WAITING, Status.SCHEDULING)
"""In these statuses, all pods of a group have the status of the group."""


def contradiction(loaded: Loaded) -> str | None:
    """The first contradiction, as a sentence that names the rows, or None. O(rows)."""
    rows = _Rows(loaded)
    return next(chain(rows.of_workflows(), rows.of_gangs()), None)


class _Rows:
    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._groups = {(each.workflow, each.name): each for each in loaded.groups}
        self._queued = {each.workflow for each in loaded.groups if each.status is Status.SCHEDULING}
        self._gangs = {each.gang.id: each for each in loaded.gangs}
        self._pools = {each.name: each for each in loaded.pools}
        self._budgets = Budgets()
        self._budgets.load(loaded, ())
        self._open = {each.name for each in loaded.nodes if each.open}
        self._latest: dict[tuple[str, str], dict[str, Task]] = {}
        for task in loaded.tasks:
            pods = self._latest.setdefault((task.workflow, task.group), {})
            if task.name not in pods or pods[task.name].retry_id < task.retry_id:
                pods[task.name] = task

    # ------------------------------------------------------------ what was submitted

    def of_workflows(self) -> Iterator[str]:
        groups = 0
        started = Counter(each.workflow for each in self._loaded.groups if each.status in UNDER_WAY)
        for workflow in self._loaded.workflows:
            if workflow.pool not in self._pools:
                yield f"workflow {workflow.id} is in pool {workflow.pool!r:.80}, which does not exist"
            yield from _of_workflow(workflow)
            if workflow.most is not None and started[workflow.id] > workflow.most and workflow.id in self._queued:
                yield f"{workflow.id} has {counted(started[workflow.id], 'element')} queued or running, but at most {workflow.most} may be"
            for spec in self._loaded.specs[workflow.spec_hash].groups:
                groups += 1
                group = self._groups.get((workflow.id, spec.name))
                if group is None:
                    yield f"workflow {workflow.id} lacks its group {spec.name!r:.80}"
                else:
                    yield from self._of_group(workflow, spec, group)
        if groups != len(self._groups):
            yield "some groups are not in the specifications of their workflows"

    def _of_group(self, workflow: Workflow, spec: GroupSpec, group: Group) -> Iterator[str]:
        name, row = group.gang_id, self._gangs.get(group.gang_id)
        if (row.state if row else None) not in _GANG_OF.get(group.status, (None,)):
            yield f"group {name} is {group.status.value}, but its gang is {row.state.value if row else 'missing'}"
        if row is not None:
            asked = gang_of(workflow, spec, group.attempt)
            if row.gang != (replace(asked, refused=row.gang.refused) if row.gang.refused else asked):
                yield f"gang {name} does not match the specification of its workflow"
        if workflow.held_by is not None and group.status is Status.SCHEDULING:
            yield f"group {name} is in the queue, but its workflow is on hold"
        if group.status is Status.SCHEDULING and self._budgets.keep_back(self._pools, workflow):
            yield f"group {name} is in the queue, but its pool is paused, or a budget is reached"
        if workflow.waits_for_others and group.status is not Status.WAITING:
            yield f"group {name} is {group.status.value}, but its workflow waits for another"
        if group.status.finished != (group.end_time is not None):
            yield f"group {name} is {group.status.value}, {_but(group.end_time)} end_time"
        pods = self._latest.get((workflow.id, group.name), {})
        named = {each.pod_name(index): (each.name, index) for each in spec.tasks for index in range(each.pods)}
        if group.status in _BEFORE_NODES and pods.keys() != named.keys():
            yield f"group {name} lacks tasks of its specification"
        for pod in pods.values():
            if named.get(pod.name) != (pod.spec, pod.index):
                yield f"task {pod.key} is not in its specification"
            yield from _of_task(pod, group)
        if row is not None:
            yield from self._where(row, pods)

    def _where(self, row: GangRow, pods: dict[str, Task]) -> Iterator[str]:
        slots = {each.pod_set: slots_of(each.shares) for each in row.placement if each.shares}
        for pod in pods.values() if slots else ():
            if pod.status not in (Status.INITIALIZING, Status.RUNNING) or pod.node not in self._open:
                continue  # a lost node may already have been replaced in the gang
            held = slots.get(pod.spec, [])[pod.index : pod.index + 1]
            if held != [(pod.node, pod.gpus)]:
                yield f"task {pod.key} is on node {pod.node} with GPUs {pod.gpus}, which its gang has not reserved for it"

    # ------------------------------------------------------------ what is held

    def of_gangs(self) -> Iterator[str]:
        holders: dict[tuple[str, int], str] = {}
        for row in self._loaded.gangs:
            id = row.gang.id
            group = self._groups.get((row.gang.workflow, id.partition("/")[2]))
            if group is None or group.status not in _GANG_OF:
                yield f"gang {id} does not belong to a waiting or running group"
            yield from self._of_placement(row)
            shares = (share for each in row.placement for share in each.shares)
            for place in ((share.node, gpu) for share in shares for gpu in share.gpus) if row.state in HOLDING else ():
                if holders.setdefault(place, id) != id:
                    yield f"GPU {place[1]} of node {place[0]} is assigned to both {holders[place]} and {id}"

    def _of_placement(self, row: GangRow) -> Iterator[str]:
        id, state = row.gang.id, row.state.value
        if (row.admitted_at is not None) != (row.state in HOLDING):
            yield f"gang {id} is {state}, {_but(row.admitted_at)} admitted_at"
        if row.state is GangState.PENDING:
            if row.placement or row.waits_for:
                yield f"gang {id} is {state}, but has a placement"
            return
        if [each.pod_set for each in row.placement] != [each.name for each in row.gang.pod_sets]:
            yield f"gang {id} is {state}, but its placement does not match its tasks"
            return
        for pod_set, each in zip(row.gang.pod_sets, row.placement, strict=True):
            least = pod_set.count if pod_set.min_count is None else pod_set.min_count
            has = f"gang {id} has {counted(each.count, 'pod')} of {pod_set.name}"
            if not least <= each.count <= pod_set.count:
                yield f"{has}, outside the {least} to {pod_set.count} that it requests"
            if each.shares and sum(share.count for share in each.shares) != each.count:
                yield f"{has}, but nodes for another number"


def _of_workflow(workflow: Workflow) -> Iterator[str]:
    if workflow.id != f"{workflow.name}-{workflow.number}":
        yield f"workflow {workflow.id} is number {workflow.number} of {workflow.name!r:.80}"
    if workflow.end_time is not None or (workflow.start_time is None and workflow.status is WorkflowStatus.RUNNING):
        yield f"workflow {workflow.id} is {workflow.status.value}, but its start_time or end_time contradicts that"
    if (workflow.held_by is None) != (workflow.held_since is None):
        yield f"workflow {workflow.id}: held_by and held_since must be set together"


def _of_task(task: Task, group: Group) -> Iterator[str]:
    if group.status in _BEFORE_NODES and task.status is not group.status:
        yield f"task {task.key} is {task.status.value}, but its group is {group.status.value}"
    if task.status.finished != (task.end_time is not None):
        yield f"task {task.key} is {task.status.value}, {_but(task.end_time)} end_time"


def _but(time: float | None) -> str:
    return "but has no" if time is None else "but has an"
