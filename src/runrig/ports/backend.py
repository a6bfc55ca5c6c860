"""Backends run attempts: each receives the whole desired state and reports what it observes."""
# ruff: noqa: ARG002  Answers for backends that do not have something ignore what was asked.

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from os import terminal_size
from typing import Protocol

from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import Conflict, NotFound, NotLoggedIn
from runrig.domain.gangs import Priority
from runrig.domain.gpu_use import GpuMinute, GpuUse
from runrig.domain.nodes import Flavor
from runrig.domain.observed import ClusterEvent, Observation
from runrig.domain.pools import Pool
from runrig.domain.subgroups import Outline
from runrig.domain.workflows import FileSpec, GroupSpec, TaskKey
from runrig.ports.code import CodeOf, StoredCode

Opens = Callable[[str, str], Mapping[str, str]]
"""(user, credential name) → its values, for a task of that user. Raises RunrigError with a message for users."""


Pulls = Callable[[str], Mapping[str, str]]
"""User → their credentials for pulling images, as name → registry ("" if not set); the most recently changed last."""


def no_credentials(user: str, name: str) -> Mapping[str, str]:
    """`Opens` for a server without credentials."""
    raise Conflict(f"credentials are not enabled on this server, so credential {name!r} of {user} is not available")


def no_code(user: str, id: str) -> StoredCode:
    """`CodeOf` for a backend that has not been given one."""
    raise NotFound(f"code {id} of {user} is not available")


def no_pulls(_user: str) -> Mapping[str, str]:
    """`Pulls` for a server without credentials."""
    return {}


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt to run, with everything a backend needs.

    *gang*: its id. *gang_attempt*: grows each time that it is queued again. *spec*: name of the task as written.
    *flavor*: of the node, as granted. *uuid*: of the task. *workflow_uuid* identifies the workflow even if the database was
    lost and its id was used again. *command* includes the args. *command*, *environment* and the contents of *files* can
    contain the tokens of ``domain.tokens``. *inputs*: (name of the task as written, attempts whose output folders hold it),
    in the order of the file. *hosts*: pods of the gang → node. *grace_s*: seconds between SIGTERM and SIGKILL.
    *credentials*: of *user*, for `Opens`.
    *code*: id of the code of *user* in which the command starts; None: none. *array*: values of its tokens in an element of an
    array.
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
    gang_attempt: int = 0
    code: str | None = None
    array: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangLaunch:
    """A gang, for a cluster that has queues and binds whole gangs.

    *uuid*: unique to this attempt of the gang, across clusters. *pool*: where it was submitted. *top*: that pool or its
    parent, whose topology keys apply. *group*: its tasks, with the admitted counts. *outline*: which pods share
    topology levels, or a sentence that explains why the keys of the pool no longer allow it. *labels*: of the workflow.
    *workflow*: its id. *workflow_uuid* None: it was never submitted. *code*: as of a launch.
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
    code: str | None = None


@dataclass(frozen=True, slots=True)
class QueueQuota:
    """A node in a scheduler's queue tree, in GPUs. *limit* None: no limit of its own."""

    quota: int
    limit: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class PoolQueues:
    """*whole*: a top-level pool with its subpools; None for a subpool. *own*: workflows submitted to *pool* itself."""

    pool: Pool
    whole: QueueQuota | None
    own: QueueQuota


@dataclass(frozen=True, slots=True)
class Desired:
    """The whole desired state. Attempts in *run* are started once; those in *stop* are ended, with a grace period. All
    others are finished: killed if still alive, then forgotten (their files stay).

    *running*: attempts in *run* that have already run, so they are not restarted if missing. Only for backends with
    queues, else empty: *gangs*, by id, to run or stop; *pools*: all that are not ARCHIVED, parents before their
    subpools; *flavors*: of the cluster.
    """

    run: Mapping[TaskKey, Launch] = field(default_factory=dict)
    stop: Mapping[TaskKey, Launch] = field(default_factory=dict)
    running: Collection[TaskKey] = ()
    gangs: Mapping[str, GangLaunch] = field(default_factory=dict)
    pools: tuple[PoolQueues, ...] = ()
    flavors: Mapping[str, Flavor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A workflow as it would be sent to a Kubernetes cluster, before placement.

    *gangs*: in the order of the workflow. *pools*: the top-level pool, then the subpool if there is one.
    *resource_names*: runrig's name of a resource → its name in the cluster, if that is not the usual one.
    """

    namespace: str
    gangs: tuple[GangLaunch, ...]
    pools: tuple[PoolQueues, ...]
    flavors: Mapping[str, Flavor]
    resource_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that only grows, so that readers can follow it.

    *name*: its path below *folder*. A task can put anything there, so readers follow no links and never block on a
    pipe.
    """

    folder: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class Output:
    """The output files of an attempt. *stderr* None: it does not exist yet, or both streams are in *stdout*.

    *order*: a file that records how the streams interleave, one line per note: microseconds since the epoch and both
    sizes. None: not recorded. *stamped*: each line of *stdout* begins with its time, as in Kubernetes.
    """

    stdout: LogFile | None
    stderr: LogFile | None = None
    order: LogFile | None = None
    stamped: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A command to run next to that of a task, in the same folder and environment. *terminal* None: pipes instead."""

    command: tuple[str, ...]
    terminal: terminal_size | None = None


OUT, ERR = 1, 2
"""Output channels: stdout (or the terminal) and stderr."""


SENDER = 6
"""Bytes of an IPv4 address and a port."""


class Passage(Protocol):
    """A byte stream to something in a running task. Used in the event loop, by one reader and one writer at a time."""

    async def read(self) -> tuple[int, bytes] | None:
        """Returns (OUT or ERR, data); None at the end. Raises Unavailable if the connection broke."""

    async def write(self, data: bytes) -> None:
        """Returns when it can take more. b"" marks the end of the input. Data that nothing reads is dropped."""

    async def resize(self, size: terminal_size) -> None:
        """Does nothing without a terminal."""
        return

    async def close(self) -> tuple[int, str] | None:
        """Ends it and everything it started. Returns (exit code, why it could not start) if the program had ended, else None."""


class Backend(Protocol):
    """Level-triggered: sending the same desired state again changes nothing, even after a crash on either side.

    It answers for what a backend does not have, which then defines no method for that.
    """

    name: str
    fixed_nodes: bool
    """Nodes change only by edits, so workflows that do not fit the empty cluster are refused (rule P3)."""
    topology: bool
    queues: bool
    """Has its own queues and scheduler, and needs pools and gangs (the second half of `Desired`)."""

    outputs: bool
    """Later tasks can read what a task writes to ``{{output}}``."""
    datagrams: bool
    """`connect` supports UDP."""

    largest_code: int | None
    """Bytes of code that it can pass to a task, as an archive (`domain.code_archive`); None: any number."""

    def use_credentials(self, opens: Opens, pulls: Pulls) -> None:
        """*opens*: gets credential values for tasks that start from now on. *pulls*: lists those for pulling images."""
        return

    def use_code(self, code_of: CodeOf) -> None:
        """*code_of*: gets the code of tasks that start from now on."""
        return

    def code_for(self, token: str) -> tuple[str, str]:
        """Returns (user, id) of the code that the pod with *token* can fetch.

        Raises NotLoggedIn for any other token; Unavailable.
        """
        raise NotLoggedIn

    def observe(self) -> Observation: ...

    def sync(self, desired: Desired) -> None: ...

    def wait(self, timeout_s: float) -> None:
        """Returns when something may have changed, or after *timeout_s*."""

    def wake(self) -> None:
        """Makes a `wait` in another thread return."""

    def output(self, key: TaskKey) -> Output | None:
        """Returns where an attempt writes; None if it has not written anything yet."""

    def keeps_output(self, key: TaskKey) -> bool:
        """Whether what an attempt that has ended wrote to ``{{output}}`` can still be read."""
        return self.outputs

    def gpu_use(self) -> Mapping[str, Sequence[GpuUse]] | str:
        """Returns node → the use of its GPUs, by index; or why it is unknown, as the end of a sentence. Does not wait."""

    def gpu_minutes(self, node: str, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]:
        """Returns the measured minutes of some GPUs of *node* that begin in [*since*, *until*), oldest first, of the last 24 hours.

        Empty if nothing is measured. Does not wait.
        """
        return ()

    def says(self, workflow: str) -> tuple[str, ...]:
        """Returns the backend's own messages about pods of *workflow* that have not started, possibly none."""
        return ()

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]:
        """Returns the cluster events of the gangs and pods of *workflow*, oldest first. Kept as long as its output."""
        return ()

    async def enter(self, key: TaskKey, program: Program) -> Passage:
        """Starts *program* in a running task; it ends with the task at the latest. Raises Conflict or Unavailable."""

    async def connect(self, key: TaskKey, port: int, *, udp: bool = False) -> Passage:
        """Connects to *port* in a running task. Raises as `enter`.

        *udp*: each piece of data begins with SENDER bytes, the peer's address; the rest is one datagram. Datagrams can
        get lost.
        """

    def discard(self, workflow: str) -> None:
        """Removes the logs, outputs and events of a finished workflow, if any."""
        return

    def close(self) -> None:
        """Releases all resources; tasks keep running."""
        return
