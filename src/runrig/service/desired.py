"""From the state to what the backend shall make true.  Pure, and level-triggered: the same state gives the same answer."""

import uuid
from collections import defaultdict
from collections.abc import Mapping

from runrig.domain.gangs import GangState
from runrig.domain.workflows import Status, Task, TaskKey, TaskSpec
from runrig.engine.ledger import Entry
from runrig.engine.state import State
from runrig.ports import Desired, Launch


class Launches:
    """Remembers launches, which never change while an attempt lives, so that a round costs only what is new."""

    def __init__(self) -> None:
        self._known: dict[TaskKey, Launch] = {}

    def desired(self, state: State) -> Desired:
        """*run*: what is on nodes; *stop*: that of it whose gang stops, or that restarts in place."""
        run: dict[TaskKey, Launch] = {}
        stop: dict[TaskKey, Launch] = {}
        tasks_by_gang: dict[str, list[Task]] = defaultdict(list)
        for key in sorted(state.active):
            task = state.tasks[key]
            tasks_by_gang[f"{task.workflow}/{task.group}"].append(task)
        for gang_id, tasks in tasks_by_gang.items():
            entry = state.ledger.entries[gang_id]
            stopping = entry.state is GangState.STOPPING
            for task in tasks:
                wanted = stop if stopping or task.restarting else run
                wanted[task.key] = self._known.get(task.key) or _launch(state, entry, task, tasks)
        self._known = {**run, **stop}
        return Desired(run, stop)


def _launch(state: State, entry: Entry, task: Task, gang: list[Task]) -> Launch:
    spec = _spec_of(state, task)
    workflow = state.workflows[task.workflow]
    assert task.node is not None, f"{task.key} is started nowhere"
    counts = {each.pod_set: each.count for each in entry.placement}
    return Launch(
        key=task.key,
        uuid=task_uuid(workflow.uuid, task.name),
        node=task.node,
        gpus=task.gpus,
        command=(*spec.command, *spec.args),
        environment=spec.environment,
        files=spec.files,
        inputs=tuple((name, _attempts_behind(state, task.workflow, name)) for name in spec.inputs),
        hosts=_hosts(gang),
        index=task.index,
        count=counts.get(spec.name, spec.pods),
        max_count=spec.pods,
        grace_s=state.pools[workflow.pool].grace_s,
        duration_s=spec.duration_s,
    )


def _spec_of(state: State, task: Task) -> TaskSpec:
    group = state.group_spec((task.workflow, task.group))
    return next(spec for spec in group.tasks if spec.name == task.spec)


def _attempts_behind(state: State, workflow: str, name: str) -> tuple[TaskKey, ...]:
    """The attempts whose output is the input *name*: of each of its pods the one that is COMPLETED."""
    done = [
        task
        for task in state.tasks.values()
        if task.workflow == workflow and task.spec == name and task.status is Status.COMPLETED
    ]
    return tuple(task.key for task in sorted(done, key=lambda task: (task.index, task.retry_id)))


def _hosts(gang: list[Task]) -> Mapping[str, str]:
    return {task.name: task.node for task in gang if task.node is not None}


def task_uuid(workflow_uuid: str, task: str) -> str:
    """The same for all attempts of a pod."""
    return str(uuid.uuid5(uuid.UUID(workflow_uuid), task))
