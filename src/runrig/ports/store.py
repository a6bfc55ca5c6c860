"""Storage of the cluster's state and its log, one transaction per revision."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from runrig.domain.gangs import Priority
from runrig.domain.records import Event, Loaded, Note, RowChange
from runrig.domain.tags import Expected
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, LabelSelector, Status, Task, Workflow, WorkflowSpec
from runrig.ports.access import AccessStore
from runrig.ports.code import CodeStore
from runrig.ports.notices import NoticeStore
from runrig.ports.past import PastStore
from runrig.ports.places import Position
from runrig.ports.usage import UsageStore


@dataclass(frozen=True, slots=True)
class SpecText:
    """A stored specification: *text* as rendered, *template* as submitted."""

    hash: str
    text: str
    template: str
    spec: WorkflowSpec


NOTHING: Mapping[int, Any] = MappingProxyType({})

ORDERS = ("submitted", "waited", "ran", "workflow")
ALIVE = tuple(status.value for status in WorkflowStatus if not status.finished)
"""The statuses of workflows that have not ended."""


@dataclass(frozen=True, slots=True)
class WorkflowQuery:
    """A page of workflows, newest first. Empty tuples and None do not filter.

    *below*: in one of these top-level pools or their subpools. *labels*: has all of them. *no_labels*: has none of
    these keys. *tags*: has at least one of them. *arrays*: is an array. *order*: a column of `ORDERS`, the largest first with a minus; "":
    newest first. *behind*: the page after this place in the order, or, if *back*, the one before it.
    """

    pools: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    labels: tuple[LabelSelector, ...] = ()
    no_labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    arrays: bool = False
    name: str | None = None
    submitted_after: float | None = None
    submitted_before: float | None = None
    limit: int = 20
    offset: int = 0
    behind: Position | None = None
    back: bool = False
    order: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowTotals:
    """Sums over the workflows that match a query. *statuses*: their number by status. *whole*: these are all that match,
    and not only the newest.

    Seconds: *waited_s* and *ran_s* of all together. *oldest*: submit time of the oldest match that is PENDING.
    """

    statuses: Mapping[str, int]
    waited_s: float
    ran_s: float
    whole: bool
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A page of task attempts, or totals over them. *workflows*: of these workflows; its page is ignored.

    Empty tuples and None do not filter. *started_after* is inclusive, *started_before* exclusive; both exclude tasks
    that never started.
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
    """*pods*: attempts of *task*, as named in the specification *spec_hash*. *workflow* None: of all workflows."""

    user: str
    pool: str
    priority: Priority
    spec_hash: str
    task: str
    pods: int
    workflow: str | None = None


@dataclass(frozen=True, slots=True)
class ChangesQuery:
    """A page of the changes of a pool and its subpools, newest first. Empty tuples and None do not filter.

    *alone*: without subpools. *before*: only events older than this (revision, seq).
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
    """A page of the revisions that changed pools, oldest or newest first. Empty tuples and None do not filter.

    *below*: of these top-level pools and their subpools; None: all. *name*: only changes of this pool. *tags*: has at
    least one. *since* is inclusive, *until* exclusive. *at*: only the revision in effect at that time.
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
    """*preemptors*: gangs that preempted one of the workflow's gangs, from the event log, and workflows that
    it waits for; messages can name them.
    """

    workflow: Workflow
    groups: tuple[Group, ...]
    tasks: tuple[Task, ...]
    preemptors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pruned:
    """*workflows*: number of deleted workflows. *rows*: number of deleted rows."""

    workflows: int = 0
    rows: int = 0


class Log(Protocol):
    def events(
        self,
        *,
        workflow: str | None = None,
        pool: str | None = None,
        actions: Collection[str] = (),
        after: int = 0,
        limit: int | None = None,
    ) -> tuple[Event, ...]:
        """Returns the log after revision *after*, of one workflow or pool if given. *actions*: only these classes of
        actions, by name; empty: all.
        """

    def latest(self, workflow: str, most: int) -> tuple[tuple[Event, ...], int]:
        """Returns the last *most* events of a workflow, in order, and how many it has."""


class EventLog(Log, Protocol):
    def last_time(self) -> float | None:
        """Returns the time of the last event, or None."""

    def head(self) -> str:
        """Returns the hash of the newest commit; "" if no commit has one."""

    def pool_changes(self, query: ChangesQuery) -> tuple[tuple[Event, ...], bool]:
        """Returns (the page, whether more follow)."""

    def cohort_changes(self) -> tuple[Event, ...]:
        """Returns all PutCohort events, in order."""

    def pool_revisions(self, query: RevisionsQuery) -> tuple[tuple[tuple[Event, ...], Note | None], ...]:
        """Returns the page: for each revision, its pool changes and the note that users attached."""

    def pools_after(self, revision: int, below: tuple[str, ...] | None) -> tuple[Event, ...]:
        """Returns the last change of each pool up to *revision*, in order. *below*: as in the query."""

    def tag_revision(self, revision: int, add: Collection[str], remove: Collection[str], most: int) -> tuple[str, ...]:
        """Returns the new tags of the revision. Raises NotFound unless it changed pools, Conflict for more than *most* tags."""

    def declarations(self, *, after: int) -> tuple[Event, ...]:
        """Returns all changes of pools, cohorts and flavors after revision *after*, in order."""

    def pools_at(self, pool: str, at: float) -> tuple[Event, ...]:
        """Returns the last change of *pool* and of each subpool at or before *at*; pools created later are left out."""


class RetentionStore(Protocol):
    """Finds expired workflows and deletes them in small steps."""

    def expired(self, before: float, limit: int) -> tuple[str, ...]:
        """Returns the ids of workflows that ended before *before*, oldest first."""

    def prune(self, ids: Sequence[str], rows: int) -> Pruned:
        """Deletes the workflows *ids* in order, up to *rows* rows, in one transaction. `prune_events` deletes their events."""

    def prune_events(self, rows: int) -> Pruned:
        """Deletes up to *rows* events of deleted workflows, in one transaction."""


class Tags(Protocol):
    def of(self, workflow: str) -> tuple[str, ...]:
        """Returns the tags of the workflow with this id, sorted."""

    def used(self, query: WorkflowQuery) -> tuple[str, ...]:
        """Returns the distinct tags of the workflows of *query*, sorted; its page counts tags."""


class TagStore(Tags, Protocol):
    """Tags of workflows, separate from the cluster state: changes have no revision."""

    def change(
        self, workflow: str, add: Collection[str], remove: Collection[str], most: int, expected: Expected = None
    ) -> tuple[str, ...]:
        """Returns the new tags of the workflow with this id.

        Raises NotFound, Conflict for more than *most* tags, Changed if the old tags are not *expected*.
        """


class TaskStore(Protocol):
    """Attempts of many workflows."""

    def page(self, query: TaskQuery) -> tuple[tuple[Task, Workflow], ...]:
        """Returns unfinished attempts first, then the others; each by start time, newest first."""

    def counts(self, query: TaskQuery) -> tuple[TaskCount, ...]:
        """Returns totals over all attempts of the query, in any order."""

    def counts_by_workflow(self, query: TaskQuery) -> tuple[TaskCount, ...]:
        """Returns the same for each workflow of a page, newest first."""


class PastReads(PastStore, Protocol):
    """Reads of the past, including workflows."""

    def workflows(self, query: WorkflowQuery, at: float) -> tuple[Workflow, ...]:
        """Returns a page of the current rows of workflows that may have matched *query* at time *at*, newest first.

        Changes at exactly *at* may or may not be included. Of unfinished workflows, PENDING means only that they had
        not finished.
        """


class WorkflowReads(Protocol):
    """Reads of workflows."""

    @property
    def log(self) -> Log: ...

    @property
    def tags(self) -> Tags: ...

    def spec(self, hash: str) -> SpecText: ...

    def specs(self, hashes: Collection[str]) -> Mapping[str, WorkflowSpec]:
        """Returns specifications by hash, in one query; deleted ones are left out."""

    def head(self, id: str) -> Workflow:
        """Returns the workflow with this id or uuid, without its parts. Raises NotFound."""

    def workflow(self, id: str, only: Collection[str] | None = None) -> StoredWorkflow:
        """Returns the workflow with this id or uuid, finished or not. *only*: of these task groups. Raises NotFound."""

    def elements(self, id: str) -> Mapping[str, Status]:
        """Returns the status of each task group of workflow *id*, by its name."""

    def workflows(self, query: WorkflowQuery, at: float = 0.0) -> tuple[tuple[Workflow, ...], bool]:
        """Returns (the page, whether more follow)."""

    def pods(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """Returns the pods in the latest attempt of each group, by workflow and task as written, in one query.

        All requested pods until the group is admitted, then the admitted ones (rule A3).
        """

    def holding(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """Returns how many pods are on a node and have not ended, by workflow and task as written, in one query."""

    def statuses(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """Returns how many task groups have each status, by workflow, in one query."""

    def nodes(self, ids: Collection[str]) -> Mapping[str, tuple[str, int]]:
        """Returns the first node by name and the number of nodes on which attempts run, by workflow, in one query.
        Workflows without any are left out.
        """

    def running_since(self, ids: Collection[str]) -> Mapping[str, float]:
        """Returns when the first of the running groups started, by workflow, in one query. Workflows without any are left out."""

    def started_later(self, than: Workflow, since: float, most: int) -> int:
        """Returns how many groups of its pool started *since* although they were submitted after *than*, with its
        priority or lower.

        Groups of finished workflows count as long as those are kept. Stops at *most*; reads no pending workflows.
        """


class SnapshotStore(Protocol):
    """All that was alive at some revisions, so that `runrig verify` can begin there (docs/event-export.md)."""

    def is_due(self, revision: int) -> bool:
        """*revision*: the newest one. Cheap."""

    def take(self) -> int | None:
        """Writes a snapshot of the newest revision, whose hash the next commit names. Returns the revision; None if its commit has no
        hash. Costs what a server's start costs: it reads everything that is alive.
        """


class Store(WorkflowReads, Protocol):
    @property
    def access(self) -> AccessStore: ...

    @property
    def code(self) -> CodeStore: ...

    @property
    def log(self) -> EventLog: ...

    @property
    def notices(self) -> NoticeStore: ...

    @property
    def past(self) -> PastReads: ...

    @property
    def tags(self) -> TagStore: ...

    @property
    def tasks(self) -> TaskStore: ...

    @property
    def retention(self) -> RetentionStore: ...

    @property
    def snapshots(self) -> SnapshotStore: ...

    @property
    def usage(self) -> UsageStore: ...

    def repeat_of(self, id: str) -> str | None:
        """Returns the id of the newest workflow that repeats workflow *id*, or None."""

    def totals(self, query: WorkflowQuery, at: float, most: int) -> WorkflowTotals:
        """Sums over all matches, whatever page the query asks for; over the newest *most* if it filters by more than
        pools, users, statuses and priorities. *at*: now.
        """

    def load(self) -> Loaded: ...

    def commit(
        self,
        revision: int,
        events: Sequence[Event],
        changes: Sequence[RowChange],
        specs: Collection[SpecText] = (),
        about: Mapping[int, Any] = NOTHING,
    ) -> None:
        """Writes everything in one transaction; *revision* becomes the last one. *about*: what commits say about themselves in the
        log, as JSON by revision (docs/event-export.md).

        *events* may cover several revisions, without gaps. Raises Unavailable unless the first is the next one.
        """

    def try_writing(self) -> None:
        """Changes nothing. Raises what a commit would raise if it cannot be stored."""

    def close(self) -> None: ...
