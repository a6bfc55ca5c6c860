"""Derives the desired state of the backend. Pure and level-triggered: the same state gives the same result."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import is_

from runrig.domain.errors import At, FailedAt, Refused
from runrig.domain.gangs import Assignment, Gang, Placement
from runrig.domain.pools import Pool, PoolState, TopologyKey
from runrig.domain.subgroups import Outline
from runrig.domain.workflows import GroupKey, GroupSpec, Status, Task, TaskKey, task_uuid
from runrig.engine.ledger.queue import Entry
from runrig.engine.placement.constraint_tree import tree_of
from runrig.engine.placement.subgroups import outline_of
from runrig.engine.state.state import State
from runrig.ports.backend import Desired, GangLaunch, Launch, PoolQueues
from runrig.service.runtime.kai_quota import kai_quotas


class Launches:
    """Caches launches, which never change during an attempt, and outlines of gangs, so that a round costs only what is
    new.

    *queues*: the backend has queues, and needs pools and gangs.
    """

    def __init__(self, *, queues: bool = False) -> None:
        self._known: dict[TaskKey, Launch] = {}
        self._gangs: dict[str, _Made] = {}
        self._queues = queues

    def desired(self, state: State) -> Desired:
        """Returns the desired state. *run*: attempts on nodes. *stop*: attempts of stopping gangs, and those that
        restart in place.
        """
        known, active, tasks = self._known, state.active, state.tasks.records
        # Set operations are fast, and nearly all attempts are unchanged between rounds.
        for key in set(known).difference(active):
            del known[key]
        known.update(_new_launches(state, sorted(active.difference(known))))
        run = dict(known)
        stop = {key: run.pop(key) for key in _stopping(state) if key in run}
        if not self._queues:
            return Desired(run, stop)
        running = frozenset(key for key in run if tasks[key].status is Status.RUNNING)
        on_nodes = dict.fromkeys(launch.gang for launch in known.values())
        self._gangs = dict(self._gangs_of(state, on_nodes))
        gangs = {id: launch for id, (_, launch) in self._gangs.items()}
        return Desired(run, stop, running, gangs, _pools(state), dict(state.flavors))

    def _gangs_of(self, state: State, gangs: Iterable[str]) -> Iterator[tuple[str, "_Made"]]:
        for id in gangs:
            workflow = id.partition("/")[0]
            try:
                with At(workflow):
                    made = _gang(state, state.ledger.entries[id], self._gangs.get(id))
            except FailedAt:
                if workflow not in state.aside:
                    raise
                if (before := self._gangs.get(id)) is None:
                    continue
                made = before
            yield id, made


_Origin = tuple[Gang, Placement, Pool, Pool]
"""Everything a `GangLaunch` depends on: the gang, its grant, its pool and the top-level pool."""

_Made = tuple[_Origin, GangLaunch]


def _stopping(state: State) -> list[TaskKey]:
    """Returns the attempts on nodes whose gang is stopping, by gang, then those that restart in place."""
    groups = [(workflow, name) for workflow, _, name in (id.partition("/") for id in state.ledger.stopping_ids)]
    ending = [task.key for group in groups for task in state.current_tasks(group) if task.key in state.active]
    restarting = [key for key in state.unsteady if state.tasks[key].restarting]
    return [*ending, *sorted(set(restarting).difference(ending))]


def _new_launches(state: State, keys: Iterable[TaskKey]) -> Iterator[tuple[TaskKey, Launch]]:
    hosts: dict[GroupKey, Mapping[str, str]] = {}
    for key in keys:
        group = (key.workflow, state.tasks[key].group)
        try:
            with At(key.workflow):
                if group not in hosts:
                    hosts[group] = _hosts([each for each in state.current_tasks(group) if each.key in state.active])
                launch = _launch(state, state.ledger.entries["/".join(group)], state.tasks[key], hosts[group])
        except FailedAt:
            if key.workflow in state.aside:
                continue  # It is known to fail here, so it starts nothing more (rule W8).
            raise
        yield key, launch


def _launch(state: State, entry: Entry, task: Task, hosts: Mapping[str, str]) -> Launch:
    """*hosts*: one mapping shared by the whole gang, which may have ten thousand pods."""
    spec = state.task_spec(task)
    workflow = state.workflows[task.workflow]
    assert task.node is not None, f"{task.key} is started nowhere"
    granted = {each.pod_set: each for each in entry.placement}[spec.name]
    code = state.spec_of(workflow.id).code
    return Launch(
        key=task.key,
        gang=entry.gang.id,
        spec=spec.name,
        flavor=granted.flavor,
        uuid=task_uuid(workflow.uuid, task.name),
        workflow_uuid=workflow.uuid,
        node=task.node,
        gpus=task.gpus,
        command=(*spec.command, *spec.args),
        environment=spec.environment,
        files=spec.files,
        inputs=tuple((name, _attempts_behind(state, task.workflow, name)) for name in spec.inputs),
        hosts=hosts,
        index=task.index,
        count=granted.count,
        max_count=spec.pods,
        grace_s=state.pools[workflow.pool].grace_s,
        duration_s=spec.duration_s,
        credentials=spec.credentials,
        user=workflow.submitted_by if spec.credentials or code else "",
        gang_attempt=entry.gang.attempt,
        code=code,
        array=spec.array,
    )


def _gang(state: State, entry: Entry, known: tuple[_Origin, GangLaunch] | None) -> tuple[_Origin, GangLaunch]:
    """*known*: the same gang in the last round."""
    workflow = state.workflows[entry.gang.workflow]
    pool = state.pools[workflow.pool]
    top = pool if pool.parent is None else state.pools[pool.parent]
    origin = (entry.gang, entry.placement, pool, top)
    if known is not None and all(map(is_, known[0], origin)):
        return known
    group = state.group_spec((workflow.id, entry.gang.id.removeprefix(f"{workflow.id}/")))
    admitted = _as_admitted(group, {each.pod_set: each for each in entry.placement})
    launch = GangLaunch(
        id=entry.gang.id,
        uuid=str(uuid.uuid5(uuid.UUID(workflow.uuid), f"{group.name}/{entry.gang.attempt}")),
        workflow=workflow.id,
        workflow_uuid=workflow.uuid,
        pool=pool,
        top=top,
        priority=workflow.priority,
        user=workflow.submitted_by,
        group=admitted,
        outline=_outline(top.topology_keys, admitted, None if known is None else known[1]),
        labels=workflow.labels,
        code=state.spec_of(workflow.id).code,
    )
    return origin, launch


def _outline(keys: tuple[TopologyKey, ...], group: GroupSpec, known: GangLaunch | None) -> Outline | str:
    """Returns the outline for `GangLaunch`, from *known* if nothing that it depends on has changed."""
    if known is not None and known.top.topology_keys == keys and known.group == group:
        return known.outline
    try:
        return outline_of(tree_of(keys, group.tasks))
    except Refused as error:  # The gate refuses such gangs, so the order of the pool's keys has changed since.
        return error.message


def _as_admitted(group: GroupSpec, granted: Mapping[str, Assignment]) -> GroupSpec:
    tasks = (task if task.count is None else replace(task, count=granted[task.name].count) for task in group.tasks)
    return replace(group, tasks=tuple(tasks))


def _pools(state: State) -> tuple[PoolQueues, ...]:
    """Returns all pools that are not ARCHIVED, parents before subpools."""
    live = [each for each in state.pools.values() if each.state is not PoolState.ARCHIVED]
    return tuple(
        kai_quotas(state, each) for each in sorted(live, key=lambda pool: (pool.parent is not None, pool.name))
    )


def _attempts_behind(state: State, workflow: str, name: str) -> tuple[TaskKey, ...]:
    """Returns the attempts whose output is the input *name*: the COMPLETED one of each pod. O(pods of that task)."""
    whole = state.spec_of(workflow)
    if name in whole.linked:
        return whole.linked[name]
    spec = next(task for group in whole.groups for task in group.tasks if task.name == name)
    return tuple(
        attempt.key
        for index in range(spec.pods)
        for attempt in state.attempts(workflow, spec.pod_name(index))
        if attempt.status is Status.COMPLETED
    )


def _hosts(gang: list[Task]) -> Mapping[str, str]:
    return {task.name: task.node for task in gang if task.node is not None}
