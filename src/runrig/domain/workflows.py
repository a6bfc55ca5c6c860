"""Workflows: what a user wrote, and how far it has come (reference statuses and exit codes; law W1)."""

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runrig.domain.credentials import CredentialUse
from runrig.domain.gangs import Priority, Requirement
from runrig.domain.quantities import Requests
from runrig.domain.times import FOLLOWS, Times
from runrig.domain.value import Word
from runrig.domain.workflow_status import WorkflowStatus


class ExitCode:
    """Codes that we give; 0-255 are the process's own (a signal is 128 + its number)."""

    IMAGE_PULL_BACK_OFF = 301
    IMAGE_PULL = 302
    UPSTREAM = 3000
    BACKEND_ERROR = 3001
    SERVER_ERROR = 3002
    START_ERROR = 3003
    EVICTED = 3004
    START_TIMEOUT = 3005
    PREEMPTED = 3006
    UNKNOWN = 4000


class Status(Word):
    """The status of a task or group.  A group WAITING has groups before it, or is on hold; SCHEDULING is pending in the queue."""

    WAITING = "WAITING"
    SCHEDULING = "SCHEDULING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    RESCHEDULED = "RESCHEDULED"  # tasks only: ended, and started again as the next attempt
    FAILED = "FAILED"
    FAILED_CANCELED = "FAILED_CANCELED"
    FAILED_SERVER_ERROR = "FAILED_SERVER_ERROR"
    FAILED_BACKEND_ERROR = "FAILED_BACKEND_ERROR"
    FAILED_EXEC_TIMEOUT = "FAILED_EXEC_TIMEOUT"
    FAILED_QUEUE_TIMEOUT = "FAILED_QUEUE_TIMEOUT"
    FAILED_UPSTREAM = "FAILED_UPSTREAM"
    FAILED_EVICTED = "FAILED_EVICTED"
    FAILED_IMAGE_PULL = "FAILED_IMAGE_PULL"  # tasks only: their group is FAILED
    FAILED_START_ERROR = "FAILED_START_ERROR"
    FAILED_START_TIMEOUT = "FAILED_START_TIMEOUT"
    FAILED_PREEMPTED = "FAILED_PREEMPTED"

    @property
    def finished(self) -> bool:
        return self not in _LIVE

    @property
    def failed(self) -> bool:
        return self.finished and self not in (Status.COMPLETED, Status.RESCHEDULED)


_LIVE = (Status.WAITING, Status.SCHEDULING, Status.INITIALIZING, Status.RUNNING)


class ExitAction(enum.Enum):
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    RESCHEDULE = "RESCHEDULE"


class ExitRule(NamedTuple):
    """Codes *first* to *last*, both included, end in *action*.  The first rule that matches wins."""

    action: ExitAction
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A file that the task finds: *contents* is text, or base64 of bytes where *base64* is set."""

    path: str
    contents: str
    base64: bool = False


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task as written.  *count* None is one pod called *name*; otherwise pods *name*-0 … *name*-(count-1).

    *requests* is per pod; *inputs* are names of tasks whose output it reads; *duration_s* counts on the simulated backend only.
    """

    name: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    lead: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[FileSpec, ...] = ()
    requests: Requests = ()
    platform: str | None = None
    inputs: tuple[str, ...] = ()
    exit_rules: tuple[ExitRule, ...] = ()
    count: int | None = None
    min_count: int | None = None
    duration_s: float | None = None
    allow: tuple[str, ...] = ()
    """Rights that it asks for: ``privileged``, ``hostNetwork``, ``volumeMounts``."""
    topology: tuple[Requirement, ...] = ()
    credentials: tuple[CredentialUse, ...] = ()

    @property
    def pods(self) -> int:
        return 1 if self.count is None else self.count

    @property
    def least(self) -> int:
        """The fewest pods that will do."""
        return self.pods if self.min_count is None else self.min_count

    def pod_name(self, index: int) -> str:
        return self.name if self.count is None else f"{self.name}-{index}"


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """Tasks that start together.  *upstream*: the groups that must be COMPLETED first, in the order of the file."""

    name: str
    tasks: tuple[TaskSpec, ...]
    upstream: tuple[str, ...] = ()
    barrier: bool = True
    ignore_nonlead_status: bool = True


@dataclass(frozen=True, slots=True)
class WorkflowSpec:
    """A workflow file, read.  Timeouts are per group and in seconds; *priority* None: not said in the file."""

    name: str
    groups: tuple[GroupSpec, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: Priority | None = None
    exec_timeout_s: float | None = None
    queue_timeout_s: float | None = None

    def group(self, name: str) -> GroupSpec:
        return next(group for group in self.groups if group.name == name)


class LabelSelector(NamedTuple):
    """Workflows whose label *key* is one of *patterns*, in which ``*`` stands for any letters."""

    key: str
    patterns: tuple[str, ...]


class TaskKey(NamedTuple):
    """One attempt of one pod: what backends know a process by."""

    workflow: str
    task: str
    retry_id: int

    def __str__(self) -> str:
        return f"{self.workflow}/{self.task}/{self.retry_id}"


GroupKey = tuple[str, str]
"""Workflow, name of the group."""


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt of one pod.  *spec* is the name of the task as written; *index* its pod, from 0.

    *restarting*: it is being stopped in order to start again in place.
    """

    workflow: str
    name: str
    retry_id: int
    group: str
    spec: str
    index: int
    lead: bool
    status: Status = Status.WAITING
    node: str | None = None
    gpus: tuple[int, ...] = ()
    exit_code: int | None = None
    failure_message: str = ""
    start_time: float | None = None
    end_time: float | None = None
    restarting: bool = False

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.workflow, self.name, self.retry_id)


@dataclass(frozen=True, slots=True)
class Group:
    """*attempt* counts from 0 and grows each time the gang is queued again; *preemptions* has a budget of its own (law R6).

    *refusals*: how often a scheduler of the cluster's own did not take it (law T7).  *drains*: how often it stopped because a node
    of it was drained (law N2).

    *stopping*: the status that the group takes when its pods are gone, None while nothing stops it.
    """

    workflow: str
    name: str
    status: Status = Status.WAITING
    attempt: int = 0
    preemptions: int = 0
    refusals: int = 0
    stopping: Status | None = None
    failure_message: str = ""
    queued_time: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    drains: int = 0

    @property
    def gang_id(self) -> str:
        return f"{self.workflow}/{self.name}"


THE_SERVER = "the server"
"""Who holds a workflow that is set aside: with a space, so no user has this name."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """*id* is name-n; *spec_hash* finds the specification, which is kept apart from the event log.

    *held_by*, *held_since*: who put it on hold, and when; None while it is not (law W3).  `THE_SERVER`: it is set aside (law W8).
    *times*: where its time went; None before it is submitted, and if an older release kept it last.
    """

    id: str
    uuid: str
    name: str
    number: int
    pool: str
    priority: Priority
    submitted_by: str
    submit_time: float
    spec_hash: str
    status: WorkflowStatus = WorkflowStatus.PENDING
    labels: Mapping[str, str] = field(default_factory=dict)
    parent: str | None = None
    cancelled_by: str | None = None
    failure_message: str = ""
    start_time: float | None = None
    end_time: float | None = None
    held_by: str | None = None
    held_since: float | None = None
    times: Times | None = field(default=None, metadata={FOLLOWS: True})

    @property
    def set_aside(self) -> bool:
        """The server failed at it, and leaves it alone (law W8)."""
        return self.held_by == THE_SERVER


def left_out(group: Group, latest: Task) -> bool:
    """Whether the pod has no part in the latest attempt of *group*, which was admitted with fewer pods (law A3).

    *latest*: of the attempts of the pod.  It is of an earlier attempt of the group then, and ended before that was queued again.
    """
    ended, queued = latest.end_time, group.queued_time
    return group.attempt > 0 and queued is not None and ended is not None and ended <= queued


def task_uuid(workflow_uuid: str, task: str) -> str:
    """The same for all attempts of a pod."""
    return str(uuid.uuid5(uuid.UUID(workflow_uuid), task))
