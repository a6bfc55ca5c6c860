"""Backends run attempts: each gets the whole desired state, and reports what it observes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import Conflict
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor
from runrig.domain.observed import ClusterEvent, Observation
from runrig.domain.pools import Pool
from runrig.domain.subgroups import Outline
from runrig.domain.workflows import FileSpec, GroupSpec, TaskKey

Opens = Callable[[str, str], Mapping[str, str]]
"""(user, name of a credential) → its values, for a task of that user.  Raises RunrigError in words."""


Pulls = Callable[[str], Mapping[str, str]]
"""User → their credentials for pulling images: name → its registry, "" if it names none; the last changed last."""


def no_credentials(user: str, name: str) -> Mapping[str, str]:
    """`Opens` where none are kept."""
    raise Conflict(f"credentials are not enabled on this server, so credential {name!r} of {user} is not available")


def no_pulls(_user: str) -> Mapping[str, str]:
    """`Pulls` where none are kept."""
    return {}


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt to run, with everything a backend needs for it.

    *gang*: the id of its gang; *spec*: the name of its task as written; *flavor*: that of the node, as it was granted.
    *uuid*: of its task; *workflow_uuid*: of its workflow, whose id another one may have had in a database that was lost.
    *command* includes the args; *command*, *environment* and the contents of *files* may hold the tokens of ``domain.tokens``.
    *inputs*: (name of the task as written, the attempts whose output folders hold it), in the order of the file.
    *hosts*: pods of the gang → node.  *grace_s*: between SIGTERM and SIGKILL.  *credentials*: of *user*, to be opened by `Opens`.
    """

    key: TaskKey
    gang: str
    spec: str
    flavor: str
    uuid: str
    workflow_uuid: str
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
    credentials: tuple[CredentialUse, ...] = ()
    user: str = ""


@dataclass(frozen=True, slots=True)
class GangLaunch:
    """A gang as a cluster needs it that has queues and binds gangs as a whole.

    *uuid*: of this attempt of the gang, and of no other in any cluster.  *pool*: the one it was submitted to; *top*: that pool
    or its parent, whose topology keys count.  *group*: its tasks, each with the count that was admitted.
    *outline*: which of its pods share levels of the topology, or a sentence on why the pool's keys no longer allow one.
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
    outline: Outline | str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QueueQuota:
    """A place in a scheduler's tree of queues, in GPUs.  *limit* None: no limit of its own."""

    quota: int
    limit: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class PoolQueues:
    """*whole*: a top-level pool with everything in it, None for a subpool; *own*: what is submitted to *pool* itself."""

    pool: Pool
    whole: QueueQuota | None
    own: QueueQuota


@dataclass(frozen=True, slots=True)
class Desired:
    """The whole wanted state.  *run*: started if it never was, then left alone.  *stop*: ended, with grace.
    An attempt in neither is finished: killed if still alive, then forgotten (its files stay).

    *running*: the attempts in *run* that have already run, so they are not started again if missing.
    Only for backends with queues, else empty: *gangs*, by id, that are to run or to stop; *pools*: all that are not
    ARCHIVED, subpools after their parents; *flavors*: those of the cluster.
    """

    run: Mapping[TaskKey, Launch] = field(default_factory=dict)
    stop: Mapping[TaskKey, Launch] = field(default_factory=dict)
    running: Collection[TaskKey] = ()
    gangs: Mapping[str, GangLaunch] = field(default_factory=dict)
    pools: tuple[PoolQueues, ...] = ()
    flavors: Mapping[str, Flavor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A workflow as it would be handed to a Kubernetes cluster, before anything is placed.

    *gangs*: in the order of the workflow.  *pools*: the top-level pool, then the subpool if the workflow goes to one.
    *resource_names*: our name of a resource → its name there, if that is not the usual one.
    """

    namespace: str
    gangs: tuple[GangLaunch, ...]
    pools: tuple[PoolQueues, ...]
    flavors: Mapping[str, Flavor]
    resource_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that only grows, so that a reader may follow it.

    *name*: its path below *folder*, in which a task may have put anything: readers follow no link there and wait for no pipe.
    """

    folder: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class Output:
    """What an attempt writes.  *stderr* None: it is not there yet, or *stdout* has both streams.

    *order*: notes of how long both were when, a line each: microseconds since the epoch and the two sizes; None: nobody notes that.
    *stamped*: each line of *stdout* begins with its time, as Kubernetes gives it.
    """

    stdout: LogFile | None
    stderr: LogFile | None = None
    order: LogFile | None = None
    stamped: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a terminal, in characters."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Program:
    """A command to start beside that of a task, in its place and with its environment.  *terminal* None: its files are three pipes."""

    command: tuple[str, ...]
    terminal: Size | None = None


OUT, ERR = 1, 2
"""Channels for what a program writes: terminal or stdout, and stderr."""


SENDER = 6
"""Bytes of an IPv4 address and a port."""


class Passage(Protocol):
    """Bytes from and to something in a task that runs.  Used in the event loop, by one reader and one writer at a time."""

    async def read(self) -> tuple[int, bytes] | None:
        """(OUT or ERR, what has come); None once nothing more can come.  Raises Unavailable if the way there has broken."""

    async def write(self, data: bytes) -> None:
        """Returns when it has room for more; b"": that was all.  Unread data is dropped."""

    async def resize(self, size: Size) -> None: ...

    async def close(self) -> tuple[int, str] | None:
        """Ends it, with all that it has started.  (exit code, what kept it from starting) of a program that had ended; else None."""


class Backend(Protocol):
    """Level-triggered: the same desired state sent many times has the effect of once, also across a crash of either side."""

    name: str
    fixed_nodes: bool
    """Nodes change only by edits, so what fits no empty cluster can be refused at once (law P3)."""
    topology: bool
    queues: bool
    """It has queues and a scheduler of its own, and needs to know pools and gangs (the second half of `Desired`)."""

    outputs: bool
    """Later tasks can read what a task writes to ``{{output}}``."""
    datagrams: bool
    """`connect` knows UDP."""

    def use_credentials(self, opens: Opens, pulls: Pulls) -> None:
        """*opens*: how to come by the values for tasks that start from now on.  *pulls*: which of them pull images."""

    def observe(self) -> Observation: ...

    def sync(self, desired: Desired) -> None: ...

    def wait(self, timeout_s: float) -> None:
        """Returns when something may have changed, or after *timeout_s*."""

    def wake(self) -> None:
        """Makes a `wait` in another thread return."""

    def output(self, key: TaskKey) -> Output | None:
        """Where an attempt writes; None if it has written nothing (yet)."""

    def says(self, workflow: str) -> tuple[str, ...]:
        """The backend's own sentences about pods of *workflow* that have not started; empty if it has none."""

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]:
        """Events of the cluster about the gangs and pods of *workflow*, oldest first; kept as long as its output."""

    async def enter(self, key: TaskKey, program: Program) -> Passage:
        """Starts *program* in a task that runs; it ends with the task at the latest.  Raises Conflict, Unavailable in words."""

    async def connect(self, key: TaskKey, port: int, *, udp: bool = False) -> Passage:
        """A connection to what listens on *port* in a task that runs, and to nothing else.  Raises as `enter`.

        *udp*: of each piece SENDER bytes say whom it is from or for; the rest is a datagram.  Those may get lost.
        """

    def discard(self, workflow: str) -> None:
        """Removes the logs, outputs and events of a workflow that has ended; does nothing if it has none."""

    def close(self) -> None:
        """Releases everything; tasks keep running."""
