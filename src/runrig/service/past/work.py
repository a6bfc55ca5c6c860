"""Earlier states of workflows, computed by the engine from current rows and the log."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from runrig.domain.plan import Action, Nominate, Preempt, Reassign, Submit, WorkflowMove
from runrig.domain.records import Event
from runrig.domain.workflows import Status, Task, Workflow, WorkflowSpec
from runrig.engine.state.moves import workflow_moved
from runrig.engine.state.state import State
from runrig.ports.past import Moment
from runrig.ports.places import place_of
from runrig.ports.store import Store, StoredWorkflow, WorkflowQuery
from runrig.service.queries.lookup import no_workflow

AT_ONCE = 100
"""Rows read at a time for a page."""


def alone(state: State, spec: WorkflowSpec, events: Sequence[Event]) -> State:
    """Returns a separate state with one workflow, from its log *events* and the pools of *state*."""
    found = State(fixed_nodes=state.fixed_nodes, place=False, topology=False)
    found.ledger.set_flavors(state.flavors.values())
    first = events[0].action
    assert isinstance(first, Submit), "the log of a workflow begins with it"
    moves = (event.action.pool for event in events if isinstance(event.action, Reassign))
    for pool in [state.pools[name] for name in (first.workflow.pool, *moves)]:
        if pool.parent is not None:
            found.ledger.put_pool(state.pools[pool.parent])
        found.ledger.put_pool(pool)
    found.specs[first.workflow.spec_hash] = spec
    for event in events:
        found.apply(_without_others(event.action), event.time)
    return found


def _without_others(action: Action) -> Action:
    return replace(action, targets=()) if isinstance(action, Nominate) else action


def moved_workflows(events: Iterable[Event]) -> Mapping[str, Workflow]:
    """Returns the workflows that *events* submit and move, by id."""
    found: dict[str, Workflow] = {}
    for event in events:
        match event.action:
            case Submit(workflow):
                found[workflow.id] = workflow
            case move if isinstance(move, WorkflowMove):
                found[move.workflow] = workflow_moved(found[move.workflow], move, event.time)
    return found


class LogThen:
    """The log up to revision *upto*."""

    def __init__(self, store: Store, upto: int) -> None:
        self._store = store
        self._upto = upto

    def events(self, **asked: Any) -> tuple[Event, ...]:
        """As in `ports.store.EventLog`."""
        return tuple(event for event in self._store.log.events(**asked) if event.revision <= self._upto)

    def latest(self, workflow: str, most: int) -> tuple[tuple[Event, ...], int]:
        found = self.events(workflow=workflow)
        return found[-most:], len(found)


class NoTags:
    """Earlier tags of a workflow are unknown."""

    def of(self, workflow: str) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def used(self, query: WorkflowQuery) -> tuple[str, ...]:  # noqa: ARG002
        return ()


class StoreThen:
    """`ports.store.WorkflowReads` as of *moment*. *state*: at that time, without workflows."""

    def __init__(self, store: Store, moment: Moment, state: State) -> None:
        self._store = store
        self._moment = moment
        self._state = state
        self._alone: dict[str, tuple[State, tuple[Event, ...]]] = {}
        self.log = LogThen(store, moment.revision)
        self.tags = NoTags()
        self.spec, self.specs = store.spec, store.specs

    def alone(self, id: str) -> tuple[State, tuple[Event, ...]]:
        """Returns the workflow in a separate state, and its log. Raises NotFound."""
        if id not in self._alone:
            events = self._store.past.of_workflow(id, self._moment.revision)
            if not events:
                raise no_workflow(id)
            spec = self._store.spec(self._store.head(id).spec_hash).spec
            self._alone[id] = alone(self._state, spec, events), events
        return self._alone[id]

    def head(self, id: str) -> Workflow:
        known = self._store.head(id).id
        found = moved_workflows(self._store.past.moves([known], self._moment.revision))
        if known not in found:
            raise no_workflow(id)
        return found[known]

    def workflow(self, id: str, only: Collection[str] | None = None) -> StoredWorkflow:
        state, events = self.alone(self._store.head(id).id)
        (workflow,) = state.workflows.values()
        groups = tuple(each for _, each in sorted(state.groups.items()) if only is None or each.name in only)
        tasks = tuple(each for _, each in sorted(state.tasks.items()) if only is None or each.group in only)
        preemptors = {event.action.by for event in events if isinstance(event.action, Preempt)}
        return StoredWorkflow(workflow, groups, tasks, tuple(sorted(preemptors)))

    def workflows(self, query: WorkflowQuery, at: float = 0.0) -> tuple[tuple[Workflow, ...], bool]:  # noqa: ARG002
        """Filters only after reading the current rows, because their earlier state is not in the database. Newest
        first, whatever the query says.
        """
        page: list[Workflow] = []
        skipped = 0
        for workflow, moved in self._candidates(query):
            if query.statuses and workflow.status.value not in query.statuses:
                continue
            if skipped < query.offset:
                skipped += 1
            elif len(page) == query.limit:
                return tuple(page[::-1] if query.back else page), True
            else:
                page.append(self._timed(workflow) if moved else workflow)
        return tuple(page[::-1] if query.back else page), False

    def _timed(self, workflow: Workflow) -> Workflow:
        """Adds how the workflow spent its time, from its log, which a list reads anyway."""
        (whole,) = self.alone(workflow.id)[0].workflows.values()
        return replace(workflow, times=whole.times)

    def _candidates(self, query: WorkflowQuery) -> Iterator[tuple[Workflow, bool]]:
        """Yields earlier states of workflows, and whether they come from moves, which have no times.

        Their status may not match the query.
        """
        chunk = replace(query, limit=AT_ONCE, offset=0)
        while rows := self._store.past.workflows(chunk, self._moment.time):
            unsure = [row.id for row in rows if row.end_time is None or row.end_time >= self._moment.time]
            then = moved_workflows(self._store.past.moves(unsure, self._moment.revision))
            for row in rows:
                if row.id not in unsure:
                    yield row, False
                elif row.id in then:
                    yield then[row.id], True
            if len(rows) < AT_ONCE:
                return
            chunk = replace(chunk, behind=place_of(rows[-1], "", 0.0))

    def pods(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        return {id: self._pods(id) for id in ids}

    def _pods(self, id: str) -> Mapping[str, int]:
        state, _ = self.alone(id)
        pods = sorted(task.spec for key in state.groups for task in state.current_tasks(key))
        return {spec: len(list(same)) for spec, same in groupby(pods)}

    def holding(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        return {id: Counter(task.spec for task in self._on_nodes(id)) for id in ids}

    def statuses(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        states = {id: self.alone(id)[0] for id in ids}
        return {id: Counter(each.status.value for each in state.groups.values()) for id, state in states.items()}

    def elements(self, id: str) -> Mapping[str, Status]:
        return {each.name: each.status for each in self.alone(id)[0].groups.values()}

    def nodes(self, ids: Collection[str]) -> Mapping[str, tuple[str, int]]:
        found = {id: {task.node for task in self._on_nodes(id) if task.node is not None} for id in ids}
        return {id: (min(nodes), len(nodes)) for id, nodes in found.items() if nodes}

    def running_since(self, ids: Collection[str]) -> Mapping[str, float]:
        states = {id: self.alone(id)[0] for id in ids}
        found = {
            id: [
                group.start_time
                for group in state.groups.values()
                if group.status is Status.RUNNING and group.start_time
            ]
            for id, state in states.items()
        }
        return {id: min(since) for id, since in found.items() if since}

    def _on_nodes(self, id: str) -> list[Task]:
        state, _ = self.alone(id)
        tasks = [task for key in state.groups for task in state.current_tasks(key)]
        return [task for task in tasks if task.node is not None and task.end_time is None]

    def started_later(self, than: Workflow, since: float, most: int) -> int:  # noqa: ARG002
        """Returns 0, because rows have only the last start of a group, not an earlier one."""
        return 0
