"""Storage of the cluster's state and its log, one transaction per revision."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.gangs import Priority
from runrig.domain.records import Event, Loaded, Note, RowChange
from runrig.domain.tags import Expected
from runrig.domain.workflows import Group, LabelSelector, Task, Workflow, WorkflowSpec
from runrig.ports.access import AccessStore
from runrig.ports.past import PastStore


@dataclass(frozen=True, slots=True)
class SpecText:
    """A specification as it is kept: *text* rendered, *template* as sent."""

    hash: str
    text: str
    template: str
    spec: WorkflowSpec


@dataclass(frozen=True, slots=True)
class WorkflowQuery:
    """A page of workflows, newest first.  Empty tuples and None do not filter.

    *below*: in one of these top-level pools or in a subpool of one.  *labels*: with each of them; *no_labels*: with none of these
    keys; *tags*: with one of them.

    *behind*: only what follows the workflow with this submit time, number and id.
    """

    pools: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    labels: tuple[LabelSelector, ...] = ()
    no_labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    name: str | None = None
    submitted_after: float | None = None
    submitted_before: float | None = None
    limit: int = 20
    offset: int = 0
    behind: tuple[float, int, str] | None = None


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A page of attempts of tasks, or of sums over them.  *workflows*: whose; its own page counts nothing.

    Empty tuples and None do not filter.  *started_after* is still in it, *started_before* is not; what never started is in neither.
    """

    workflows: WorkflowQuery = WorkflowQuery()
    statuses: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    started_after: float | None = None
    started_before: float | None = None
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TaskCount:
    """*pods*: attempts of *task*, as written in the specification *spec_hash*; of one *workflow*, unless that is None."""

    user: str
    pool: str
    priority: Priority
    spec_hash: str
    task: str
    pods: int
    workflow: str | None = None


@dataclass(frozen=True, slots=True)
class ChangesQuery:
    """A page of the changes of a pool and its subpools, newest first.  Empty tuples and None do not filter.

    *alone*: without the subpools.  *before*: only what is older than the event with this (revision, seq).
    """

    pool: str
    alone: bool = False
    actors: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    before: tuple[int, int] | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class RevisionsQuery:
    """A page of the revisions that changed pools, the oldest first, or the newest.  Empty tuples and None do not filter.

    *below*: of these top-level pools and their subpools; None: all.  *name*: only what changed this pool.  *tags*: with one of these.
    *since* is still in it, *until* is not.  *at*: only the one that held at that time.
    """

    below: tuple[str, ...] | None = None
    name: str | None = None
    revision: int | None = None
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    at: float | None = None
    newest_first: bool = False
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True, slots=True)
class StoredWorkflow:
    """*preemptors*: the gangs that preempted one of the workflow's, by the event log; messages may name them."""

    workflow: Workflow
    groups: tuple[Group, ...]
    tasks: tuple[Task, ...]
    preemptors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pruned:
    """*workflows*: how many are gone; *rows*: how many rows were deleted."""

    workflows: int = 0
    rows: int = 0


class Log(Protocol):
    def events(
        self, *, workflow: str | None = None, pool: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[Event, ...]:
        """The log after revision *after*, of one workflow or one pool if given."""


class EventLog(Log, Protocol):
    def last_time(self) -> float | None:
        """The time of the last event; None if there is none."""

    def pool_changes(self, query: ChangesQuery) -> tuple[tuple[Event, ...], bool]:
        """(the page, whether there is more)."""

    def cohort_changes(self) -> tuple[Event, ...]:
        """Every PutCohort, in order."""

    def pool_revisions(self, query: RevisionsQuery) -> tuple[tuple[tuple[Event, ...], Note | None], ...]:
        """The page: of each revision the changes of pools in it, and what people said about it."""

    def pools_after(self, revision: int, below: tuple[str, ...] | None) -> tuple[Event, ...]:
        """The last change of each pool up to *revision*, in order.  *below*: as in the query."""

    def tag_revision(self, revision: int, add: Collection[str], remove: Collection[str], most: int) -> tuple[str, ...]:
        """The tags of the revision afterwards.  Raises NotFound unless it changed pools, Conflict if these are more than *most*."""

    def declarations(self, *, after: int) -> tuple[Event, ...]:
        """Every change of pools, cohorts and flavors after revision *after*, in order."""

    def pools_at(self, pool: str, at: float) -> tuple[Event, ...]:
        """The last change of *pool* and of each of its subpools at or before *at*; a pool created later has none."""


class RetentionStore(Protocol):
    """Finds expired workflows and deletes them in small steps."""

    def expired(self, before: float, limit: int) -> tuple[str, ...]:
        """Ids of workflows that ended before *before*, oldest first."""

    def prune(self, ids: Sequence[str], rows: int) -> Pruned:
        """Deletes the workflows *ids*, in order, up to *rows* rows, in one transaction; their events stay for `prune_events`."""

    def prune_events(self, rows: int) -> Pruned:
        """Deletes up to *rows* events of deleted workflows, in one transaction."""


class Tags(Protocol):
    def of(self, workflow: str) -> tuple[str, ...]:
        """The tags of the workflow with this id, by name."""

    def used(self, query: WorkflowQuery) -> tuple[str, ...]:
        """The tags that the workflows of *query* have, each once, by name; its page counts tags."""


class TagStore(Tags, Protocol):
    """The tags of workflows, stored separately from the state of the cluster: a change has no revision."""

    def change(
        self, workflow: str, add: Collection[str], remove: Collection[str], most: int, expected: Expected = None
    ) -> tuple[str, ...]:
        """The tags that the workflow with this id has afterwards.

        Raises NotFound, Conflict if these are more than *most*, and Changed if those before are not as *expected*.
        """


class TaskStore(Protocol):
    """The attempts of many workflows."""

    def page(self, query: TaskQuery) -> tuple[tuple[Task, Workflow], ...]:
        """What waits, starts and runs first, then all others; of these by start, the newest first."""

    def counts(self, query: TaskQuery) -> tuple[TaskCount, ...]:
        """Sums over all attempts of the query, in no order."""

    def counts_by_workflow(self, query: TaskQuery) -> tuple[TaskCount, ...]:
        """The same for each workflow of a page, the newest first."""


class PastReads(PastStore, Protocol):
    """The past, workflows included."""

    def workflows(self, query: WorkflowQuery, at: float) -> tuple[Workflow, ...]:
        """A page of the rows, as they are now, of workflows that may have been of *query* at that time; newest first.

        What happened at that very time may be in it or not; of those that had not ended, PENDING means only that.
        """


class WorkflowReads(Protocol):
    """What is asked about workflows."""

    @property
    def log(self) -> Log: ...

    @property
    def tags(self) -> Tags: ...

    def spec(self, hash: str) -> SpecText: ...

    def specs(self, hashes: Collection[str]) -> Mapping[str, WorkflowSpec]:
        """Specifications by hash, in one query; deleted ones are left out."""

    def head(self, id: str) -> Workflow:
        """The workflow by id or uuid, without its parts.  Raises NotFound."""

    def workflow(self, id: str) -> StoredWorkflow:
        """The workflow by id or uuid, even if it has ended.  Raises NotFound."""

    def workflows(self, query: WorkflowQuery) -> tuple[tuple[Workflow, ...], bool]:
        """(the page, whether there is more)."""

    def pods(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """Returns the pods in the latest attempt of each task's group, by workflow and then by task as written, in one query.

        All of them until it is admitted, then those that it was admitted with (law A3).
        """

    def holding(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """Returns how many pods are on a node and have not ended, by workflow and then by task as written, in one query."""

    def nodes(self, ids: Collection[str]) -> Mapping[str, tuple[str, int]]:
        """Returns the first node by name and how many nodes there are on which attempts run that have not ended, by workflow, in one
        query; nothing for a workflow without any."""

    def started_later(self, than: Workflow, since: float, most: int) -> int:
        """How many groups of its pool have started *since*, though they were submitted after *than*, with its priority or a lower one.

        Groups of ended workflows count as long as the workflows are kept.  Counts to *most* at most; reads no waiting workflow.
        """


class Store(WorkflowReads, Protocol):
    @property
    def access(self) -> AccessStore: ...

    @property
    def log(self) -> EventLog: ...

    @property
    def past(self) -> PastReads: ...

    @property
    def tags(self) -> TagStore: ...

    @property
    def tasks(self) -> TaskStore: ...

    @property
    def retention(self) -> RetentionStore: ...

    def load(self) -> Loaded: ...

    def commit(
        self, revision: int, events: Sequence[Event], changes: Sequence[RowChange], specs: Collection[SpecText] = ()
    ) -> None:
        """Writes all of it in one transaction; *revision* is the last one then.

        *events* may be of several revisions, without a gap.  Raises Unavailable if the first of them is not the next one.
        """

    def try_writing(self) -> None:
        """Changes nothing.  Raises what a commit would raise that cannot be stored."""

    def close(self) -> None: ...
