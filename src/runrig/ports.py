"""What the service needs from the outside: a store, a backend, a clock.  Implemented in store/ and backends/, chosen in wiring."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from runrig.domain.access import AccessEvent, GrantRow, TokenRow, User
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor
from runrig.domain.observed import ClusterEvent, Observation
from runrig.domain.pools import Pool
from runrig.domain.records import Event, Loaded, RowChange
from runrig.domain.workflows import FileSpec, Group, GroupSpec, Task, TaskKey, Workflow, WorkflowSpec


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, in whole microseconds, so that a stored time reads back equal."""


# ---------------------------------------------------------------- backend


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt that shall run, with everything that a backend needs for it.

    *gang*: the id of its gang; *spec*: the name of its task as written; *flavor*: that of the node, as it was granted.
    *command* includes the args; *command*, *environment* and the contents of *files* may hold the tokens of ``domain.tokens``.
    *inputs*: (name of the task as written, the attempts whose output folders hold it), in the order of the file.
    *hosts*: pods of the gang → node.  *grace_s*: between SIGTERM and SIGKILL.
    """

    key: TaskKey
    gang: str
    spec: str
    flavor: str
    uuid: str
    node: str
    gpus: tuple[int, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    files: tuple[FileSpec, ...]
    inputs: tuple[tuple[str, tuple[TaskKey, ...]], ...]
    hosts: Mapping[str, str]
    index: int
    count: int
    max_count: int
    grace_s: float
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class GangLaunch:
    """A gang, with what a cluster needs that has queues and binds gangs whole.

    *uuid*: of this attempt of the gang, and of no other in any cluster.  *pool*: the one it was submitted to, *top*: the top-level
    pool above it or itself, whose topology keys count.  *group*: its tasks, each with the count that was admitted.
    *labels*: the workflow's own.  *workflow*: its id, *workflow_uuid*: None for one that was never submitted.
    """

    id: str
    uuid: str
    workflow: str
    workflow_uuid: str | None
    pool: Pool
    top: Pool
    priority: Priority
    user: str
    group: GroupSpec
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Share:
    """A place in a scheduler's tree of queues, in GPUs.  *limit* None: no limit of its own."""

    quota: int
    limit: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class PoolShares:
    """*whole*: a top-level pool with everything in it, None for a subpool; *own*: what is submitted to *pool* itself."""

    pool: Pool
    whole: Share | None
    own: Share


@dataclass(frozen=True, slots=True)
class Desired:
    """The whole wanted state.  *run*: shall be started once if it never was, and left alone.  *stop*: shall end, with its grace.
    An attempt in neither is finished business: killed if it is alive all the same, and forgotten (its files stay).

    *running*: those of *run* that have run already, so that they are not started if they are not there.
    For backends that have queues, else empty: *gangs*, by id, of all that is to run or to stop; *pools*: all that are not
    ARCHIVED, subpools behind their parents; *flavors*: those of the cluster.
    """

    run: Mapping[TaskKey, Launch] = field(default_factory=dict)
    stop: Mapping[TaskKey, Launch] = field(default_factory=dict)
    running: Collection[TaskKey] = ()
    gangs: Mapping[str, GangLaunch] = field(default_factory=dict)
    pools: tuple[PoolShares, ...] = ()
    flavors: Mapping[str, Flavor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A workflow as it would be handed to a Kubernetes cluster, before anything is placed.

    *gangs*: in the order of the workflow.  *pools*: the top-level pool, and behind it the subpool if it is for one.
    *resource_names*: our name of a resource → its name there, where it is not the usual one.
    """

    namespace: str
    gangs: tuple[GangLaunch, ...]
    pools: tuple[PoolShares, ...]
    flavors: Mapping[str, Flavor]
    resource_names: Mapping[str, str] = field(default_factory=dict)


class Backend(Protocol):
    """Level-triggered: the same desired state any number of times has the effect of once, also across a crash of either side."""

    name: str
    fixed_nodes: bool
    """Nodes come and go by edits only, so that what fits no empty cluster can be refused at once (law P3)."""
    topology: bool
    queues: bool
    """It has queues and a scheduler of its own, and needs to know pools and gangs (the second half of `Desired`)."""

    outputs: bool
    """What a task writes to ``{{output}}`` stays where the tasks behind it can read it."""

    def observe(self) -> Observation: ...

    def sync(self, desired: Desired) -> None: ...

    def wait(self, timeout_s: float) -> None:
        """Returns when something may have changed, or after *timeout_s*."""

    def wake(self) -> None:
        """Makes a `wait` in another thread return."""

    def log(self, key: TaskKey, *, error: bool = False) -> "LogFile | None":
        """The output of an attempt; None if there is none (yet)."""

    def says(self, workflow: str) -> tuple[str, ...]:
        """What it says itself of pods of *workflow* that have not started, a sentence each; empty where it has nothing to say."""

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]:
        """What programs of the cluster noted about the gangs and pods of *workflow*, oldest first; kept as long as its output."""

    def discard(self, workflow: str) -> None:
        """Removes the files of a workflow that has ended: its logs, outputs and what was noted.  Of one that has none, nothing."""

    def close(self) -> None:
        """Lets go of everything; the tasks go on."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that only grows, so that a reader may follow it."""

    path: str


# ---------------------------------------------------------------- store


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

    *below*: in one of these top-level pools or in a subpool of one.
    """

    pools: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    name: str | None = None
    submitted_after: float | None = None
    submitted_before: float | None = None
    limit: int = 20
    offset: int = 0


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
class StoredWorkflow:
    workflow: Workflow
    groups: tuple[Group, ...]
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """*workflows*: how many are gone; *rows*: how many rows were deleted."""

    workflows: int = 0
    rows: int = 0


class Store(Protocol):
    access: "AccessStore"

    def load(self) -> Loaded: ...

    def commit(
        self, revision: int, events: Sequence[Event], changes: Sequence[RowChange], spec: SpecText | None = None
    ) -> None:
        """Writes all of it in one transaction as *revision*, or raises Unavailable if that is not the next one."""

    def spec(self, hash: str) -> SpecText: ...

    def specs(self, hashes: Collection[str]) -> Mapping[str, WorkflowSpec]:
        """By hash, in one query; those that are no longer kept are left out."""

    def head(self, id: str) -> Workflow:
        """The workflow without its parts; by id or uuid.  Raises NotFound."""

    def workflow(self, id: str) -> StoredWorkflow:
        """By id or uuid, finished ones too.  Raises NotFound."""

    def workflows(self, query: WorkflowQuery) -> tuple[tuple[Workflow, ...], bool]:
        """The page, and whether there is more."""

    def events(
        self, *, workflow: str | None = None, pool: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[Event, ...]:
        """The log from the revision behind *after* on, of one workflow or one pool if asked."""

    def pool_changes(self, query: ChangesQuery) -> tuple[tuple[Event, ...], bool]:
        """The page, and whether there is more."""

    def pools_at(self, pool: str, at: float) -> tuple[Event, ...]:
        """Of *pool* and of each of its subpools the last change at or before *at*; none of one that was not there yet."""

    def expired(self, before: float, limit: int) -> tuple[str, ...]:
        """Ids of workflows that ended before *before*, oldest first."""

    def prune(self, ids: Sequence[str], rows: int) -> "Pruned":
        """Removes of *ids*, in order, as much as *rows* rows allow, in one transaction; their events stay for `prune_events`."""

    def prune_events(self, rows: int) -> "Pruned":
        """Removes up to *rows* events of workflows that are gone, in one transaction."""

    def close(self) -> None: ...


# ---------------------------------------------------------------- access


@dataclass(frozen=True, slots=True)
class AccessRows:
    """*users*: with the grants that *grants* has too.  *tokens*: also those that are good no longer."""

    users: tuple[User, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    tokens: tuple[TokenRow, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessChange:
    """Rows to write, and what the audit trail says of it.  *grants* and *withdrawn* are of users that are there or in *users*.

    The *number* of an event is given by the store.
    """

    events: tuple[AccessEvent, ...]
    users: tuple[User, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    withdrawn: tuple[GrantRow, ...] = ()
    tokens: tuple[TokenRow, ...] = ()


class AccessStore(Protocol):
    """Beside the state of the cluster: its changes have no revision."""

    def load(self) -> AccessRows:
        """Users by name, grants by user and role, tokens by their id."""

    def write(self, change: AccessChange) -> None:
        """All of it in one transaction."""

    def used(self, last_used_at: Mapping[str, float]) -> None:
        """Notes when tokens were used last: id → time."""

    def events(self, *, user: str | None, before: int | None, limit: int) -> tuple[AccessEvent, ...]:
        """The newest first, all or those about *user*; *before*: only those with a lower number."""

    def secret(self, name: str, made: str) -> str:
        """The one that is kept as *name*: *made* if there was none."""


# ---------------------------------------------------------------- who leads


@dataclass(frozen=True, slots=True)
class Holder:
    """Who owns the database: *who* in words, *session* of the database.

    *silent_s*: since its last heartbeat; None if it gives none (it is only starting, or no server).
    """

    who: str
    session: int
    silent_s: float | None


class Term(Protocol):
    """This process owns the database, from `Election.take` to `close`, or until another server takes it."""

    @property
    def overtaken(self) -> bool:
        """A write has found that another server leads."""

    def beat(self) -> bool:
        """Tells the others that this process lives; False if another one leads.  Raises Unavailable if it cannot be told."""

    def close(self) -> None:
        """The next one may take it at once."""


AnyTerm = TypeVar("AnyTerm", bound=Term, covariant=True)


class Election(Protocol[AnyTerm]):
    """Raises Unavailable and ServerFault as the store does."""

    def holder(self) -> Holder | None:
        """None: nobody owns the database."""

    def take(self) -> AnyTerm:
        """Raises Unavailable if somebody else was faster; where there are no turns to take, ServerFault."""

    def end(self, holder: Holder) -> None:
        """Takes the database from *holder*, who has said nothing for too long."""

    def close(self) -> None: ...
