"""Workflows: what they are, where their time went, their groups and the attempts of their tasks."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import Gang
from runrig.domain.shown.why import WorkflowCause
from runrig.domain.value import Page, Shown, at, example, shown_as
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status

_SUBMITTED, _STARTED = at(1769860800.25), at(1769860800.31)


@dataclass(frozen=True, slots=True)
class WorkflowSubmitted(Shown):
    """*id*: of the workflow from now on.  *warnings*: about parts of the file that have no effect."""

    UNTOLD = ("text", "gangs")

    id: str
    warnings: tuple[str, ...]
    text: str = ""
    """As rendered."""
    gangs: tuple[Gang, ...] = ()
    """The gangs that the submission puts into the queue."""


shown_as(WorkflowSubmitted("train-1", ()))


@dataclass(frozen=True, slots=True)
class WorkflowTimes(Shown):
    """Seconds: each moment from the submission to the end, or to now, counts in one of *running_s* to *blocked_s*, and *total_s* is all.

    *running_s*: pods ran.  *starting_s*: admitted, but nothing ran yet.  *waited_s*: in the queue, *waits* times.  *held_s*: on hold.
    *blocked_s*: waited for its own groups.  *lost_s*: the part of running and starting of attempts that were preempted, drained, or lost
    with their node or backend.  *now*: running, starting, waited, held or blocked, *since* when; null: it has ended.
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
class WorkflowHead(Shown):
    """*times*: where its time went; *queued_s*, *duration_s* (null: no task has run) go with the next release.
    *held_by*, *held_since*: who put it on hold, and when; null: it is not."""

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
}


@dataclass(frozen=True, slots=True)
class WorkflowHeadline(Shown):
    """The first reason why a workflow waits: in a few words, and as a *sentence*.

    *verdict*: what the next cycle does: STARTS, STARTS_AFTER_STOPS or WAITS; null if gangs ahead of it have not been evaluated yet.
    *code* and *law* are empty if it starts."""

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
    """*gpus*: what it holds now, if it runs; else of the pods that it was admitted with, and all before that.  *gpus_asked*: of all
    its tasks, at full count.  Both null: its file is no longer kept.

    *why* null: nothing of it waits, or something of it runs, or it was not asked for.  *node*: the first by name of the *nodes* on which
    its tasks run; null: none does."""

    UNTOLD = ("number",)

    gpus: int | None
    gpus_asked: int | None
    why: WorkflowHeadline | None
    node: str | None
    nodes: int
    number: int = 0
    """The number at the end of its ID, to sort by."""


shown_as(WorkflowEntry(**_HEAD, gpus=4, gpus_asked=6, why=None, node="n00", nodes=1))


@dataclass(frozen=True, slots=True)
class TaskAttempt(Shown):
    """One attempt of one pod.  *gpus*: the indices that it holds on its node; on Kubernetes only how many they are means something."""

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
    """A task that accepts fewer pods than its `count`, which is *asked*.  *least*: its `minCount`.  *got*: the pods that its group was
    last admitted with; null: it was not admitted."""

    task: str
    asked: int
    least: int
    got: int | None


shown_as(PodCount("main", 4, 2, 3))


@dataclass(frozen=True, slots=True)
class TaskGroup(Shown):
    """*attempt* grows each time that the group is queued again; *preemptions*: how often because others needed its place.

    *upstream*: groups that it waits for; *downstream*: those that wait for it.  *pods*: the counts of each task that
    accepts fewer pods.
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
class Workflow(WorkflowHead):
    """*backend*: who runs its tasks.  *message*: how it ended; *cause*: why, where a program of its own failed.  *repeats*: the workflow
    whose file it is again.  Timeouts in seconds, null: none.  *warnings*: what it prefers and does not have, such as one rack."""

    UNTOLD = ("etag",)

    backend: str
    message: str
    cause: WorkflowCause | None
    cancelled_by: str | None
    repeats: str | None
    tags: tuple[str, ...]
    exec_timeout_s: float | None
    queue_timeout_s: float | None
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
        groups=(example(TaskGroup),),
        warnings=(),
    )
)


class WorkflowPage(Page[WorkflowEntry]):
    """Newest first."""
