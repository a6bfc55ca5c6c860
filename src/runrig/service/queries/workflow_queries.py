"""Queries about workflows: their placement, why they wait, their events and output."""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from runrig.domain.errors import NotFound
from runrig.domain.meant import suggested
from runrig.domain.observed import ClusterEvent
from runrig.domain.plan import MoveTask, RestartTask, RetryTask
from runrig.domain.records import Event
from runrig.domain.shown import workflows as shown
from runrig.domain.shown.gpu_use import WorkflowGpuHistory, WorkflowGpuUse
from runrig.domain.shown.sentence import Facts, sentence
from runrig.domain.shown.why import GroupWhy, PoolWhy, WorkflowCause, WorkflowWhy
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Task, TaskKey, Workflow
from runrig.engine.explain.headlines import Headline, headlines
from runrig.engine.explain.pool_why import MOST_ASKED
from runrig.ports.backend import Output
from runrig.ports.places import Position, moment_of, place_of
from runrig.ports.store import SpecText, StoredWorkflow, WorkflowQuery, WorkflowReads
from runrig.service.queries import shown_workflows
from runrig.service.queries.alive import alive_here, alive_in
from runrig.service.queries.events import unnumbered
from runrig.service.queries.failures import Failures, Handed
from runrig.service.queries.gpu_use import gpu_history, gpu_use
from runrig.service.queries.lookup import no_workflow, pool_of, unknown_workflow, within
from runrig.service.queries.of_specs import OfSpecs
from runrig.service.queries.pod_counts import gpus_asked
from runrig.service.queries.pool_deletions import deletion_of
from runrig.service.queries.pool_why import seen, waiting_in
from runrig.service.queries.preemptions import with_preemptions
from runrig.service.queries.record import Log, Record
from runrig.service.queries.redaction import Names, preemptors
from runrig.service.queries.sources import Asks, Says, Stands, Tells
from runrig.service.queries.spreads import latest_in_words, noted, prefers, spreads
from runrig.service.queries.visibility import ALL, Visibility

T = TypeVar("T")

HEADLINES_AT_ONCE = 4
"""Workflows per question."""
MOST_PASSED = 1_000
"""Maximum number of counted workflows that overtook another."""
MOST_TAGS = 1_000
"""Maximum number of listed tags."""
_MAY_WAIT = (WorkflowStatus.PENDING, WorkflowStatus.RUNNING)
_OF_A_TASK = (MoveTask, RetryTask, RestartTask)


class WorkflowQueries:
    def __init__(
        self, asker: Asks, store: WorkflowReads, backend: Says, clock: Tells, reconciler: Stands, handed: Handed
    ) -> None:
        self._asker = asker
        self._store = store
        self._backend = backend
        self._clock = clock
        self._reconciler = reconciler
        self._failures = Failures(backend, store.specs, handed)
        self._asked = OfSpecs(store.specs, gpus_asked)

    def head(self, id: str, visibility: Visibility = ALL) -> Workflow:
        """*id*: may be a uuid. Reads from the store, where no query waits for the lock. Raises NotFound."""
        try:
            workflow = self._store.head(id)
        except NotFound:
            raise unknown_workflow(self._store, id, visibility) from None
        if not visibility.sees(workflow.pool):
            raise unknown_workflow(self._store, id, visibility)
        return workflow

    def names(
        self, visibility: Visibility, preemptors: Iterable[str] = (), *, gpus: Mapping[str, int] | None = None
    ) -> Names:
        """Returns the displayed names of gangs in reasons."""
        return Names(visibility, partial(pool_of, self._store), preemptors, gpus=gpus, alone=self._alone)

    def _alone(self, id: str) -> bool:
        """Whether the workflow *id* has one group; False if it was deleted."""
        with suppress(NotFound):
            hash = self._store.head(id).spec_hash
            return hash in (asked := self._asked.by_hash({hash})) and asked[hash].groups == 1
        return False

    def record(self, id: str, visibility: Visibility, most: int) -> Record:
        """*most*: events of the log of an array. Raises NotFound."""
        stored = self._store.workflow(self.head(id, visibility).id)
        spec, id = self._spec_of(stored), stored.workflow.id
        if spec is not None and spec.spec.array is not None:
            return Record(stored, spec, *self._store.log.latest(id, most))
        return Record(stored, spec, log := self._store.log.events(workflow=id), len(log))

    def _spec_of(self, stored: StoredWorkflow) -> SpecText | None:
        with suppress(NotFound):
            return self._store.spec(stored.workflow.spec_hash)
        return None

    def workflow(self, id: str, visibility: Visibility = ALL, record: Record | None = None) -> shown.Workflow:
        """Returns the workflow with this id or uuid. Raises NotFound."""
        stored = record.stored if record else self._store.workflow(self.head(id, visibility).id)
        stored, id = self.names(visibility, stored.preemptors).workflow(stored), stored.workflow.id
        text = record.spec if record else self._spec_of(stored)
        spec = None if text is None else text.spec
        found = spreads(self._asker, self._store.log.events(workflow=id)) if prefers(spec) else ()
        return shown_workflows.workflow(
            shown_workflows.as_it_runs(stored),
            spec,
            self._clock.now(),
            backend=self._backend.name,
            tags=self._store.tags.of(id),
            cause=self._failures.of(stored),
            warnings=latest_in_words(found),
        )

    def statuses(self, id: str, visibility: Visibility) -> Mapping[str, Status]:
        """Returns those of the elements of an array, by name. Raises NotFound."""
        return self._store.elements(self.head(id, visibility).id)

    def elements(self, id: str, names: Sequence[str], visibility: Visibility) -> tuple[shown.TaskGroup, ...]:
        """Returns the elements *names* of an array, in this order, and reads only these. Raises NotFound."""
        stored = self._store.workflow(self.head(id, visibility).id, names)
        seen = self.names(visibility, stored.preemptors).workflow(stored)
        found = shown_workflows.elements(shown_workflows.as_it_runs(seen))
        return tuple(found[name] for name in names if name in found)

    def gpu_use(self, of: shown.Workflow) -> WorkflowGpuUse:
        return gpu_use(of, self._backend.gpu_use(), self._clock.now())

    def gpu_history(self, of: shown.Workflow) -> WorkflowGpuHistory:
        return gpu_history(of, self._backend.gpu_minutes, self._clock.now())

    def workflows(
        self, query: WorkflowQuery, visibility: Visibility = ALL
    ) -> tuple[tuple[shown.WorkflowEntry, ...], bool]:
        """Returns (the page, whether there is more)."""
        return self.page(query, visibility)[:2]

    def page(
        self, query: WorkflowQuery, visibility: Visibility = ALL
    ) -> tuple[tuple[shown.WorkflowEntry, ...], bool, tuple[Position, Position] | None]:
        """Returns (the page, whether there is more, the places of its first and its last; None if it is empty)."""
        now = self._clock.now()
        page, more = self._store.workflows(within(query, visibility), now)
        at = moment_of(query.behind, query.order, now)
        ends = (place_of(page[0], query.order, at), place_of(page[-1], query.order, at)) if page else None
        return tuple(self._listed(page)), more, ends

    def failure(self, id: str, visibility: Visibility) -> tuple[WorkflowCause | None, str]:
        """Returns why a workflow failed, according to its output, which it reads, and its message. Raises NotFound."""
        stored = self._store.workflow(id)
        seen = self.names(visibility, stored.preemptors).workflow(stored)
        return self._failures.of(stored), seen.workflow.failure_message

    def check_users(self, names: Iterable[str], known: Collection[str], visibility: Visibility = ALL) -> None:
        """Raises NotFound for one of *names* who is not in *known* and has not submitted a visible workflow."""
        for name in names:
            if name not in known and not self.workflows(WorkflowQuery(users=(name,), limit=1), visibility)[0]:
                way_out = suggested(name, known, ". List all workflows with `runrig workflow list --all`")
                raise NotFound(f"user {name!r} is unknown, or has no workflows that you can see{way_out}")

    def with_headlines(
        self, page: Sequence[shown.WorkflowEntry], visibility: Visibility = ALL
    ) -> tuple[shown.WorkflowEntry, ...]:
        """Adds to *page* why each workflow is waiting.

        A few at a time: each question takes about 3 ms per kind of gang, in the mirror or the server.
        """
        alive = [each.id for each in page if each.status in _MAY_WAIT]
        found: dict[str, Headline] = {}
        for first in range(0, len(alive), HEADLINES_AT_ONCE):
            found |= self._asker.ask_steps(headlines, tuple(alive[first : first + HEADLINES_AT_ONCE]))[0]
        names = self.names(visibility)
        why = {id: shown_workflows.headline(names.headline(each)) for id, each in found.items()}
        return tuple(replace(each, why=why.get(each.id)) for each in page)

    def tags(self, visibility: Visibility = ALL) -> tuple[str, ...]:
        """Returns the tags of the visible workflows, by name."""
        return self._store.tags.used(within(WorkflowQuery(limit=MOST_TAGS), visibility))

    def _listed(self, page: Sequence[Workflow]) -> Iterator[shown.WorkflowEntry]:
        """*gpus*: in use now, if it is running; else of the pods with which it was admitted, and before that of all its
        pods.

        Counts pods only of workflows that use GPUs now or may have been admitted with fewer pods.
        """
        asked_by_hash = self._asked.by_hash({each.spec_hash for each in page})
        shrinking = {hash for hash, asked in asked_by_hash.items() if asked.per_pod}
        pods = self._store.pods([each.id for each in page if each.spec_hash in shrinking])
        running = [each.id for each in page if each.status is WorkflowStatus.RUNNING]
        nodes, since = self._store.nodes(running), self._store.running_since(running)
        holding = self._store.holding([each.id for each in page if each.end_time is None])
        arrays = {hash for hash, asked in asked_by_hash.items() if asked.array}
        statuses = self._store.statuses([each.id for each in page if each.spec_hash in arrays])
        now = self._clock.now()
        for each in page:
            asked, held, gpus = asked_by_hash.get(each.spec_hash), holding.get(each.id, {}), None
            if asked is not None:
                is_held = held or each.status is WorkflowStatus.RUNNING
                gpus = asked.held(held) if is_held else asked.of_pods(pods.get(each.id, {}))
            total = None if asked is None else asked.total
            limit, began = None if asked is None else asked.exec_timeout_s, since.get(each.id)
            ends_by = None if limit is None or began is None else began + limit
            yield shown_workflows.entry(
                each, now, gpus, total, nodes.get(each.id, ("", 0)), ends_by, statuses.get(each.id)
            )

    def now(self) -> float:
        return self._clock.now()

    def status(self, id: str) -> WorkflowStatus:
        """Returns the stored status. Read without the transactor's lock, so many clients can poll it while others
        submit. Raises NotFound.
        """
        return self._store.head(id).status

    def spec(self, id: str) -> SpecText:
        return self._store.spec(self._store.head(id).spec_hash)

    def _log(self, id: str, record: Record | None) -> Log:
        """Returns its events as they are stored. Raises NotFound."""
        events = record.log if record else self._store.log.events(workflow=id)
        if not events:  # It was just deleted; without its log, the names in its messages are unknown.
            raise no_workflow(id)
        return events

    def events(
        self,
        id: str,
        *,
        task: str | None = None,
        retry_id: int | None = None,
        visibility: Visibility = ALL,
        record: Record | None = None,
    ) -> tuple[Event | ClusterEvent, ...]:
        """Returns runrig's events in order, with those of the cluster merged in by time; only those of *task* and
        attempt *retry_id* if given. *record*: of `record`; None: all of the log is read.

        Raises NotFound, also if there is no such task or attempt.
        """
        workflow = self.head(id, visibility)

        def asked(key: TaskKey | None) -> bool:
            return key is not None and task in (None, key.task) and retry_id in (None, key.retry_id)

        ours: Iterable[Event] = self._named(self._log(workflow.id, record), partial(self.names, visibility))[1]
        split = noted(spreads(self._asker, ours))
        theirs: Iterable[ClusterEvent] = sorted((*self._backend.events(workflow.id), *split), key=_when)
        if task is not None or retry_id is not None:
            ours = (event for event in ours if isinstance(event.action, _OF_A_TASK) and asked(event.action.key))
            theirs = (event for event in theirs if asked(event.key))
        found: tuple[Event | ClusterEvent, ...] = tuple(heapq.merge(ours, theirs, key=_when))
        if not found:
            self.attempts(workflow.id, task=task, retry_id=retry_id, record=record)
        return found

    def _named(self, events: Log, named: Callable[[Iterable[str]], Names]) -> tuple[Names, Log]:
        """Returns the names that a workflow's log may show, and the log with these. *named*: the names, by preemptors."""
        names = named(preemptors(events))
        events = tuple(names.event(event) for event in events)
        if self._backend.queues:  # The cluster assigns GPUs, not runrig.
            events = tuple(replace(each, action=unnumbered(each.action)) for each in events)
        return names, events

    def why(
        self, id: str, visibility: Visibility = ALL, element: str | None = None, record: Record | None = None
    ) -> WorkflowWhy:
        """Returns why it waits, and its preemptors. *element*: only this one of an array. *record*: as in `events`. Raises
        NotFound.
        """
        workflow = self.head(id, visibility)
        alive = self._asker.ask_steps(alive_in, workflow.id, element, here=alive_here)[0]
        if element is not None and alive is not None and all(each.group != element for each in alive.groups):
            raise NotFound(f"{workflow.id} has no element {element!r:.80}")
        workflow, groups, holding, draining, passable, gpus = alive or (workflow, (), None, False, False, {})
        if passable:
            groups = tuple(map(partial(self._passed, workflow), groups))
        names, events = self._named(self._log(workflow.id, record), partial(self.names, visibility, gpus=gpus))
        groups = tuple(names.why(group) for group in groups)
        workflow = replace(workflow, failure_message=names.text(workflow.failure_message))
        deletion = deletion_of(self._store, workflow, draining=draining)
        failure = None
        if workflow.status.finished:
            failure = self._failures.of(record.stored if record else self._store.workflow(workflow.id))
        spread = () if holding is None else latest_in_words(spreads(self._asker, events))
        said = tuple(self._backend.says(workflow.id))
        live = not workflow.status.finished
        standstill, doubt = (self._reconciler.standstill, self._clock.doubt) if live else (None, None)
        facts = Facts(workflow, groups, holding, spread, said, failure, deletion, standstill, doubt)
        shown = with_preemptions(workflow, groups, events)
        return WorkflowWhy(workflow.id, workflow.status, sentence(facts), failure, shown, deletion, standstill)

    def _passed(self, workflow: Workflow, group: GroupWhy) -> GroupWhy:
        if not group.position or group.queued_time is None:
            return group
        return replace(group, passed=self._store.started_later(workflow, group.queued_time, MOST_PASSED))

    def pool_why(self, name: str, visibility: Visibility = ALL) -> PoolWhy:
        """Returns why each gang of the pool *name* waits; if the server answers, some milliseconds old. Raises
        NotFound.
        """
        here = partial(waiting_in, known={})
        found = self._asker.ask_steps(waiting_in, name, visibility, here=here, fresh_starts=2 * MOST_ASKED)[0]
        if isinstance(found, str):
            raise NotFound(found)
        return seen(found, self.names(visibility))

    # ------------------------------------------------------------ logs

    def attempts(
        self,
        id: str,
        *,
        task: str | None = None,
        retry_id: int | None = None,
        every: bool = False,
        record: Record | None = None,
    ) -> tuple[Task, ...]:
        """Returns the latest attempt, attempt *retry_id*, or *every* attempt, of each pod or only of *task*. Raises
        NotFound if there is none.
        """
        stored = record.stored if record else self._store.workflow(id)
        pods: dict[tuple[str, int], Task] = {}
        for attempt in sorted(stored.tasks, key=lambda attempt: attempt.retry_id):
            if task in (None, attempt.name) and retry_id in (None, attempt.retry_id):
                pods[attempt.name, attempt.retry_id if every else 0] = attempt
        if not pods and (task is not None or retry_id is not None):
            tried = Counter(attempt.name for attempt in stored.tasks)
            names = ", ".join(sorted(tried)) or "none"
            if task in (None, *tried):  # The command line and the page count attempts from 1, routes from 0.
                so_far = ", ".join(f"{name} {tried[name]}" for name in sorted(tried)) or "none"
                raise NotFound(f"{stored.workflow.id} has no such attempt. Attempts so far: {so_far}")
            raise NotFound(f"{stored.workflow.id} has no task {task!r} (tasks: {names})")
        return tuple(pods.values())

    def named(self, id: str, task: str) -> tuple[Task, ...]:
        """Returns the latest attempt of pod *task*, or of each pod of the task with that name. Raises NotFound if there
        is none.
        """
        attempts = self.attempts(id)
        found = [each for each in attempts if each.name == task] or [each for each in attempts if each.spec == task]
        return tuple(found) or self.attempts(id, task=task)  # Raises an error that lists the existing tasks.

    def output(self, key: TaskKey) -> Output | None:
        return self._backend.output(key)


def _when(event: Event | ClusterEvent) -> float:
    return event.latest if isinstance(event, ClusterEvent) else event.time
