"""Workflows: their state, how they spent their time, their groups, and the attempts of their tasks."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import Gang
from runrig.domain.shown.why import WorkflowCause
from runrig.domain.value import Page, Shown, Tagged, at, example, shown_as
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status

_SUBMITTED, _STARTED = at(1769860800.25), at(1769860800.31)


@dataclass(frozen=True, slots=True)
class WorkflowSubmitted(Shown):
    """*id*: the permanent ID of the workflow. *warnings*: about parts of the file that have no effect."""

    UNTOLD = ("text", "gangs", "in_array")

    id: str
    warnings: tuple[str, ...]
    text: str = ""
    """The rendered file."""
    gangs: tuple[Gang, ...] = ()
    """The gangs that the submission puts into the queue."""
    in_array: int = 0
    """The elements of its array; 0: it is not one."""


shown_as(WorkflowSubmitted("train-1", ()))


@dataclass(frozen=True, slots=True)
class WorkflowTimes(Shown):
    """Seconds. Each moment from submission to end, or until now, counts in one field from *running_s* to *blocked_s*;
    *total_s* is the sum.

    *running_s*: pods were running. *starting_s*: admitted, but nothing was running yet. *waited_s*: in the queue,
    *waits* times. *held_s*: on hold. *blocked_s*: waiting for its own groups. *lost_s*: the part of running and
    starting that was lost with attempts that were preempted, drained, or lost their node or backend.
    *now*: running, starting, waited, held or blocked, *since* that time; null: it has ended.
    """

    running_s: float
    starting_s: float
    waited_s: float
    held_s: float
    blocked_s: float
    lost_s: float
    total_s: float
    waits: int
    now: str | None
    since: datetime


shown_as(
    WorkflowTimes(
        running_s=12.4,
        starting_s=0.1,
        waited_s=0.06,
        held_s=0.0,
        blocked_s=0.0,
        lost_s=0.0,
        total_s=12.56,
        waits=1,
        now="running",
        since=at(1769860800.16),
    )
)


@dataclass(frozen=True, slots=True)
class WorkflowArray(Shown):
    """Number of *elements* of an array, which is the sum of *waiting* to *cancelled*. *most*: how many may be queued or
    running at a time; null: all.
    """

    elements: int
    most: int | None
    waiting: int
    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int


shown_as(WorkflowArray(elements=10, most=3, waiting=4, queued=0, running=3, completed=2, failed=1, cancelled=0))


@dataclass(frozen=True, slots=True)
class WorkflowHead(Shown):
    """*times*: how it spent its time. *queued_s* and *duration_s* (null: no task has run) are deprecated and will be
    removed in the next release.
    *held_by*, *held_since*: who put it on hold, and when; null: it is not on hold. *array*: how its elements stand; null: it
    is not an array.
    """

    id: str
    uuid: str
    pool: str
    priority: str
    status: WorkflowStatus
    submitted_by: str
    labels: dict[str, str]
    submit_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    times: WorkflowTimes
    queued_s: float
    duration_s: float | None
    held_by: str | None
    held_since: datetime | None
    array: WorkflowArray | None


_HEAD: dict[str, Any] = {
    "id": "train-1",
    "uuid": "6f1d3c0b2a4e4f6f8a7b9c0d1e2f3a4b",
    "pool": "vision",
    "priority": "NORMAL",
    "status": WorkflowStatus.RUNNING,
    "submitted_by": "alice",
    "labels": {},
    "submit_time": _SUBMITTED,
    "start_time": _STARTED,
    "end_time": None,
    "times": example(WorkflowTimes),
    "queued_s": 0.06,
    "duration_s": 12.5,
    "held_by": None,
    "held_since": None,
    "array": None,
}


@dataclass(frozen=True, slots=True)
class WorkflowHeadline(Shown):
    """The first reason why a workflow is waiting, or why it is stopping: as a short *headline* and as a *sentence*.

    *verdict*: the effect of the next cycle: STARTS, STARTS_AFTER_STOPS or WAITS; null if it is stopping, or if gangs ahead
    of it have not been evaluated yet. *code* and *law* are empty if it starts or is stopping.
    """

    verdict: Verdict | None
    headline: str
    sentence: str
    code: str
    law: str


shown_as(
    WorkflowHeadline(
        verdict=Verdict.WAITS,
        headline="quota: 2 GPUs left in vision, needs 4",
        sentence="needs 4 GPUs, but pool vision has only 2 GPUs left of its quota; in use by train-1",
        code="QuotaFull",
        law="P2",
    )
)


@dataclass(frozen=True, slots=True)
class WorkflowEntry(WorkflowHead):
    """*gpus*: in use now; before it runs, requested by all pods; after that, of the pods that were admitted.
    *gpus_asked*: of all its tasks at full count. Both are null if its file is no longer stored.

    *why* null: none of it is waiting or stopping, some of it is running, or it was not requested. *node*: the first by name of the
    *nodes* that run its tasks; null if there are none. *ends_by*: when the first of its running groups reaches the run
    time limit; null if there is no limit, or none is running.
    """

    UNTOLD = ("number",)

    gpus: int | None
    gpus_asked: int | None
    why: WorkflowHeadline | None
    node: str | None
    nodes: int
    ends_by: datetime | None
    number: int = 0
    """The number at the end of its ID, for sorting."""


shown_as(WorkflowEntry(**_HEAD, gpus=4, gpus_asked=6, why=None, node="n00", nodes=1, ends_by=None))


@dataclass(frozen=True, slots=True)
class TaskAttempt(Shown):
    """One attempt of one pod. *gpus*: the indices of its GPUs on its node; on Kubernetes, only their number is
    meaningful.
    """

    name: str
    attempt: int
    uuid: str
    status: Status
    message: str
    exit_code: int | None
    start_time: datetime | None
    end_time: datetime | None
    node: str | None
    gpus: tuple[int, ...]
    lead: bool


shown_as(
    TaskAttempt(
        name="main",
        attempt=0,
        uuid="0d7a1c52-64bb-5d8e-9a63-2f0f6b1c9d10",
        status=Status.RUNNING,
        message="",
        exit_code=None,
        start_time=_STARTED,
        end_time=None,
        node="n00",
        gpus=(0,),
        lead=True,
    )
)


@dataclass(frozen=True, slots=True)
class PodCount(Shown):
    """A task that accepts fewer pods than its `count`, which is *asked*. *least*: its `minCount`. *got*: the pods of
    its group's last admission; null: it was not admitted.
    """

    task: str
    asked: int
    least: int
    got: int | None


shown_as(PodCount("main", 4, 2, 3))


@dataclass(frozen=True, slots=True)
class TaskGroup(Shown):
    """*attempt*: increases each time the group is requeued. *preemptions*: how often it was preempted.

    *upstream*: groups that it waits for. *downstream*: groups that wait for it. *pods*: the counts of tasks that accept
    fewer pods.
    """

    name: str
    status: Status
    message: str
    queued_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    attempt: int
    preemptions: int
    upstream: tuple[str, ...]
    downstream: tuple[str, ...]
    pods: tuple[PodCount, ...]
    tasks: tuple[TaskAttempt, ...]


shown_as(
    TaskGroup(
        name="main-group",
        status=Status.RUNNING,
        message="",
        queued_time=_SUBMITTED,
        start_time=_STARTED,
        end_time=None,
        attempt=0,
        preemptions=0,
        upstream=(),
        downstream=(),
        pods=(),
        tasks=(example(TaskAttempt),),
    )
)


@dataclass(frozen=True, slots=True)
class WorkflowAfter(Shown):
    """A workflow that has to end first, or an element of an array, such as ``sweep-4/7``. *when*: ok (it must complete), fail,
    or any. *ended*: how it ended; null: it is alive.
    """

    id: str
    when: str
    ended: WorkflowStatus | None


shown_as(WorkflowAfter("prepare-4", "ok", None))


@dataclass(frozen=True, slots=True)
class Workflow(WorkflowHead):
    """*backend*: where its tasks run. *message*: how it ended. *cause*: why one of its own programs failed. *repeats*:
    the workflow whose file it runs again. Timeouts are in seconds; null: none. *warnings*: preferences that are not
    met, such as one rack. *code*: id of the code that was sent with it; null: none. *after*: workflows that have to end first.
    """

    UNTOLD = ("etag",)

    backend: str
    message: str
    cause: WorkflowCause | None
    cancelled_by: str | None
    repeats: str | None
    tags: tuple[str, ...]
    exec_timeout_s: float | None
    queue_timeout_s: float | None
    code: str | None
    after: tuple[WorkflowAfter, ...]
    groups: tuple[TaskGroup, ...]
    warnings: tuple[str, ...]
    etag: str | None = None


shown_as(
    Workflow(
        **_HEAD,
        backend="default",
        message="",
        cause=None,
        cancelled_by=None,
        repeats=None,
        tags=(),
        exec_timeout_s=None,
        queue_timeout_s=None,
        code=None,
        after=(),
        groups=(example(TaskGroup),),
        warnings=(),
    )
)


class WorkflowPage(Page[WorkflowEntry]):
    """Newest first."""


@dataclass(frozen=True, slots=True)
class WorkflowTags(Tagged):
    """The tags of a workflow, sorted by name."""

    tags: tuple[str, ...]


shown_as(WorkflowTags(("paper",)))
