"""Workflows: what a user wrote, and how far it has come (statuses and exit codes as in osmo; rule W1)."""

import enum
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from runrig.domain.after import After
from runrig.domain.credentials import CredentialUse
from runrig.domain.gangs import Priority, Requirement
from runrig.domain.quantities import Requests
from runrig.domain.times import FOLLOWS, Times
from runrig.domain.value import Word
from runrig.domain.workflow_status import WorkflowStatus


class ExitCode:
    """Exit codes that runrig assigns. 0–255 are the process's own (a signal is 128 + its number)."""

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
    """The status of a task or group. A WAITING group waits for upstream groups or is on hold; a SCHEDULING group is in the queue."""

    WAITING = "WAITING"
    SCHEDULING = "SCHEDULING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    RESCHEDULED = "RESCHEDULED"  # only for tasks: ended, and restarted as the next attempt
    FAILED = "FAILED"
    FAILED_CANCELED = "FAILED_CANCELED"
    FAILED_SERVER_ERROR = "FAILED_SERVER_ERROR"
    FAILED_BACKEND_ERROR = "FAILED_BACKEND_ERROR"
    FAILED_EXEC_TIMEOUT = "FAILED_EXEC_TIMEOUT"
    FAILED_QUEUE_TIMEOUT = "FAILED_QUEUE_TIMEOUT"
    FAILED_UPSTREAM = "FAILED_UPSTREAM"
    FAILED_EVICTED = "FAILED_EVICTED"
    FAILED_IMAGE_PULL = "FAILED_IMAGE_PULL"  # only for tasks: their group is FAILED
    FAILED_START_ERROR = "FAILED_START_ERROR"
    FAILED_START_TIMEOUT = "FAILED_START_TIMEOUT"
    FAILED_PREEMPTED = "FAILED_PREEMPTED"

    @property
    def finished(self) -> bool:
        return self not in _LIVE

    @property
    def failed(self) -> bool:
        return self.finished and self not in (Status.COMPLETED, Status.RESCHEDULED)

    @property
    def alone(self) -> WorkflowStatus | None:
        """The status of a workflow after its only group has ended like this; None: it has not ended."""
        if not self.finished:
            return None
        return WorkflowStatus.FAILED if self is Status.FAILED_UPSTREAM else WorkflowStatus(self.value)


UNDER_WAY = (Status.SCHEDULING, Status.INITIALIZING, Status.RUNNING)
"""In the queue or on nodes: the elements of an array that count against its limit (rule W4)."""

_LIVE = (Status.WAITING, *UNDER_WAY)


class ExitAction(enum.Enum):
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    RESCHEDULE = "RESCHEDULE"


class ExitRule(NamedTuple):
    """Exit codes *first* to *last*, both included, lead to *action*. The first matching rule counts."""

    action: ExitAction
    first: int
    last: int


USUAL_RETRIES = 10


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A file of a task. *contents*: text, or base64 if *base64* is set."""

    path: str
    contents: str
    base64: bool = False


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task as written. *count* None: one pod named *name*; otherwise pods *name*-0 … *name*-(count-1).

    *requests*: per pod. *inputs*: the tasks whose output it reads. *duration_s*: only for the simulated backend.
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
    retries: int = USUAL_RETRIES
    """How often each pod may restart by RESCHEDULE."""
    count: int | None = None
    min_count: int | None = None
    duration_s: float | None = None
    allow: tuple[str, ...] = ()
    """Permissions that it requests: ``privileged``, ``hostNetwork``, ``volumeMounts``."""
    topology: tuple[Requirement, ...] = ()
    credentials: tuple[CredentialUse, ...] = ()
    array: Mapping[str, str] = field(default_factory=dict, repr=False, metadata={FOLLOWS: True})
    """In an element of an array: the values of its tokens, ``array_index``, ``array_count`` and ``array:NAME``."""

    @property
    def pods(self) -> int:
        return 1 if self.count is None else self.count

    @property
    def least(self) -> int:
        """The minimum number of pods."""
        return self.pods if self.min_count is None else self.min_count

    def pod_name(self, index: int) -> str:
        return self.name if self.count is None else f"{self.name}-{index}"


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """Tasks that start together. *upstream*: groups that must be COMPLETED first, in the order of the file."""

    name: str
    tasks: tuple[TaskSpec, ...]
    upstream: tuple[str, ...] = ()
    barrier: bool = True
    ignore_nonlead_status: bool = True


MOST_ELEMENTS = 1_000


@dataclass(frozen=True, slots=True)
class Array:
    """A group that runs once for each of *indices*, which increase; each run is an element, named by its index (rule W4).

    *group*: as written. *count*: number of elements as written; a restart of the failed ones has fewer *indices*. *values*: of
    each index from 0; () if it has only indices. *most*: how many may be queued or on nodes at a time; None: all.
    *fail_fast*: the first failure cancels the other elements.
    """

    group: GroupSpec
    indices: tuple[int, ...]
    count: int
    values: tuple[Mapping[str, str], ...] = ()
    most: int | None = None
    fail_fast: bool = False

    def element(self, index: int) -> GroupSpec:
        """The group of one element. Its tasks have names of their own, and share everything else."""
        values = {"array_index": str(index), "array_count": str(self.count)}
        if self.values:
            values |= {f"array:{name}": value for name, value in self.values[index].items()}
        tasks = (replace(task, name=f"{task.name}-{index}", array=values) for task in self.group.tasks)
        return replace(self.group, name=str(index), tasks=tuple(tasks))


class TaskKey(NamedTuple):
    """One attempt of one pod. Backends identify processes by it."""

    workflow: str
    task: str
    retry_id: int

    def __str__(self) -> str:
        return f"{self.workflow}/{self.task}/{self.retry_id}"


@dataclass(frozen=True, slots=True)
class WorkflowSpec:
    """A parsed workflow file. Timeouts are per group, in seconds. *priority* None: the file does not set it.

    *linked*: tasks of *groups* read the outputs of tasks that an earlier workflow completed: name of the task as written → the
    COMPLETED attempt of each pod.
    *code*: id of the code in which the tasks start (`domain.code`); None: none was sent.
    *after*: workflows that must end first, as written (rule W5).
    *array*: *groups* are its elements, in the order of their indices; None: not an array.
    """

    name: str
    groups: tuple[GroupSpec, ...] = field(default=(), metadata={FOLLOWS: "array"})
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: Priority | None = None
    exec_timeout_s: float | None = None
    queue_timeout_s: float | None = None
    linked: Mapping[str, tuple[TaskKey, ...]] = field(default_factory=dict)
    code: str | None = None
    after: tuple[After, ...] = ()
    array: Array | None = field(default=None, repr=False)
    _by_name: Mapping[str, GroupSpec] = field(init=False, repr=False, compare=False, metadata={FOLLOWS: True})

    def __post_init__(self) -> None:
        if self.array is not None and not self.groups:
            object.__setattr__(self, "groups", tuple(map(self.array.element, self.array.indices)))
        object.__setattr__(self, "_by_name", {group.name: group for group in self.groups})

    def group(self, name: str) -> GroupSpec:
        """O(1)."""
        return self._by_name[name]

    @property
    def written(self) -> tuple[GroupSpec, ...]:
        """The groups as in the file: an array is one."""
        return self.groups if self.array is None else (self.array.group,)

    def with_tasks(self, change: Callable[[TaskSpec], TaskSpec]) -> "WorkflowSpec":
        """With *change* of every task as written."""
        changed = tuple(replace(group, tasks=tuple(map(change, group.tasks))) for group in self.written)
        if self.array is None:
            return replace(self, groups=changed)
        return replace(self, groups=(), array=replace(self.array, group=changed[0]))


class LabelSelector(NamedTuple):
    """Matches workflows whose label *key* matches one of *patterns*; ``*`` matches any characters."""

    key: str
    patterns: tuple[str, ...]


GroupKey = tuple[str, str]
"""(workflow, group name)."""


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt of one pod. *spec*: the name of the task as written. *index*: the number of the pod, from 0.

    *restarting*: it is being stopped in order to restart in place.
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
    """*attempt*: counts from 0 and increases each time the gang is queued again. *preemptions*: counted separately (rule R6).

    *refusals*: how often the cluster's own scheduler did not place it (rule T7). *drains*: how often it was stopped because one
    of its nodes was drained (rule N2).
    *stopping*: the status that the group gets when its pods have stopped; None: it is not stopping.
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
"""Used as *held_by* of a workflow that is set aside. It contains a space, so it cannot be a user name."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """*id*: name-number. *spec_hash*: finds the specification, which is stored apart from the event log.

    *held_by*, *held_since*: who put it on hold, and when; None: not on hold (rule W3). `THE_SERVER`: it is set aside (rule W8).
    *after*: workflows that must end before any of its groups is queued, and how they ended (rule W5).
    *times*: how it spent its time; None before submission and for workflows last stored by an older release.
    *most*: how many elements of its array may be queued or on nodes at a time (rule W4); None: all, or it is not an array.
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
    after: tuple[After, ...] = ()
    most: int | None = None

    @property
    def waits_for_others(self) -> bool:
        """Whether a workflow of *after* has not ended as it must."""
        return not all(each.met for each in self.after)

    @property
    def set_aside(self) -> bool:
        """Whether the server set it aside after an internal error (rule W8)."""
        return self.held_by == THE_SERVER


def kind_of_group(name: str) -> str:
    """``group``, or ``element``: only the elements of an array have numbers as names."""
    return "element" if name.isdecimal() else "group"


def left_out(group: Group, latest: Task) -> bool:
    """Whether the pod is not part of the latest attempt of *group*, which was admitted with fewer pods (rule A3).

    *latest*: the pod's latest attempt. If the pod is left out, it ended before the group was last queued.
    """
    ended, queued = latest.end_time, group.queued_time
    return group.attempt > 0 and queued is not None and ended is not None and ended <= queued


def task_uuid(workflow_uuid: str, task: str) -> str:
    """The same for all attempts of a pod."""
    return str(uuid.uuid5(uuid.UUID(workflow_uuid), task))
