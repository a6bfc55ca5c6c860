"""Workflows of our own door: submitting them, and everything that can be asked of them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.domain.shown.why import WorkflowCause
from runrig.wire.base import Request, example, example_of
from runrig.wire.v1.base import Page, Shown, Tagged
from runrig.wire.v1.problems import ProblemDetails
from runrig.wire.v1.times import WorkflowTimes
from runrig.wire.workflows import PodsAnswer

PriorityName = Literal["HIGH", "NORMAL", "LOW"]
_FILE = "workflow:\n  name: train\n  tasks:\n  - {name: main, image: ubuntu, command: [sleep, '5']}\n"
_SUBMITTED = "2026-01-31T12:00:00.250000Z"
_STARTED = "2026-01-31T12:00:00.310000Z"


class WorkflowFile(Request):
    """*file*: the text of a workflow file, perhaps a template.  *variables*: ``k=v`` of templating, *string_variables* as strings.
    *template*: the one that *file* was rendered from, where the client did that."""

    model_config = example({"file": _FILE, "variables": [], "string_variables": []})

    file: str
    variables: list[str] = Field(default_factory=list)
    string_variables: list[str] = Field(default_factory=list)
    template: str | None = None


class WorkflowSubmit(WorkflowFile):
    """*priority* wins over that of the file; without both it is NORMAL.  *environment*: for every task.
    *labels* win over those of the file."""

    model_config = example(
        {"pool": "vision", "file": _FILE, "priority": "LOW", "environment": {"SEED": "1"}, "variables": []}
    )

    pool: str
    priority: PriorityName | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)


class WorkflowRepeat(Request):
    """*pool*: where the file goes again.  *failed_only*: refused unless it failed; its priority stays then.
    *priority*: else that of the first time."""

    model_config = example({"pool": "vision", "failed_only": True})

    pool: str
    priority: PriorityName | None = None
    failed_only: bool = False


class WorkflowRender(WorkflowSubmit):
    """*namespace*: that the gangs live in; else that of the server."""

    model_config = example({"pool": "vision", "file": _FILE, "namespace": "runrig"})

    namespace: str | None = None


class WorkflowBatch(Request):
    """*workflows*: 1 to 1,000, or to 200 with *all_or_nothing*: then none is submitted if one is refused."""

    model_config = example({"pool": "vision", "workflows": [WorkflowFile.example()], "all_or_nothing": False})

    pool: str
    workflows: list[WorkflowFile]
    priority: PriorityName | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    all_or_nothing: bool = False


class WorkflowSubmitted(Shown):
    """*id*: of the workflow from now on.  *warnings*: about parts of the file that have no effect."""

    model_config = example({"id": "train-1", "warnings": []})

    id: str
    warnings: list[str]


class WorkflowCheck(WorkflowSubmit):
    """*template_only*: only fill the template in, because its file still names others that you are to put into it."""

    template_only: bool = False


class WorkflowChecked(Shown):
    """What a submission would give, and the rendered file.  *id*: with `?` for its number; null: only the template was looked at.

    *verdict*: what the next cycle would do with it; null if that is not known."""

    model_config = example({"id": "train-?", "file": _FILE, "warnings": [], "verdict": example_of(WorkflowDryRun)})

    id: str | None
    file: str
    warnings: list[str]
    verdict: WorkflowDryRun | None


class WorkflowOutcome(Shown):
    """What became of one workflow of a batch: the *id* that it got, or *problem*, why it was not submitted."""

    model_config = example({"id": "train-1", "warnings": [], "problem": None})

    id: str | None = None
    warnings: list[str] = Field(default_factory=list)
    problem: ProblemDetails | None = None


class WorkflowOutcomes(Shown):
    """*submitted*: how many.  *outcomes*: one for each workflow, in the order of the request."""

    model_config = example({"submitted": 1, "outcomes": [WorkflowOutcome.example()]})

    submitted: int
    outcomes: list[WorkflowOutcome]


class WorkflowCancel(Request):
    """*message*: why, for its owner."""

    model_config = example({"message": "wrong data"})

    message: str = Field(default="", max_length=1000)


class WorkflowCancelled(Shown):
    """It stops from now on."""

    model_config = example({"id": "train-1"})

    id: str


class WorkflowReassign(Request):
    """Null: as before.  *dry_run*: only says what would become of it."""

    model_config = example({"pool": "vision", "priority": "LOW", "dry_run": False})

    pool: str | None = None
    priority: PriorityName | None = None
    dry_run: bool = False


class WorkflowReassigned(Shown):
    """*verdict*: of a dry run, what the next cycle would do with it; null: not known, or nothing of it waits in the queue."""

    model_config = example({"id": "train-1", "verdict": None})

    id: str
    verdict: WorkflowDryRun | None


class WorkflowNamed(Shown):
    """It is as was asked from now on."""

    model_config = example({"id": "train-1"})

    id: str


class WorkflowTags(Tagged):
    """The tags of a workflow, in order of name."""

    model_config = example({"tags": ["paper"]})

    tags: list[str]


class WorkflowTagEdit(Request):
    """Tags to put on and to take off."""

    model_config = example({"add": ["paper"], "remove": []})

    add: list[str] = Field(default_factory=list)
    remove: list[str] = Field(default_factory=list)


# ---------------------------------------------------------------- what is there

_ENTRY: dict[str, Any] = {
    "id": "train-1",
    "uuid": "6f1d3c0b2a4e4f6f8a7b9c0d1e2f3a4b",
    "pool": "vision",
    "priority": "NORMAL",
    "status": "RUNNING",
    "submitted_by": "alice",
    "labels": {},
    "submit_time": _SUBMITTED,
    "start_time": _STARTED,
    "end_time": None,
    "times": WorkflowTimes.example(),
    "queued_s": 0.06,
    "duration_s": 12.5,
    "held_by": None,
    "held_since": None,
}


class WorkflowHead(Shown):
    """*times*: where its time went; *queued_s*, *duration_s* (null: no task has run) go with the next release.
    *held_by*, *held_since*: who put it on hold, and when; null: it is not."""

    model_config = example(_ENTRY)

    id: str
    uuid: str
    pool: str
    priority: str
    status: str
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


class WorkflowHeadline(Shown):
    """The first reason why a workflow waits: in a few words, and as a *sentence*.

    *verdict*: what the next cycle does: STARTS, STARTS_AFTER_STOPS or WAITS; null if gangs ahead of it have not been evaluated yet.
    *code* and *law* are empty if it starts."""

    model_config = example(
        {
            "verdict": "WAITS",
            "headline": "quota: 2 GPUs left in vision, needs 4",
            "sentence": "needs 4 GPUs, but pool vision has only 2 GPUs left of its quota; in use by train-1",
            "code": "QuotaFull",
            "law": "P2",
        }
    )

    verdict: str | None
    headline: str
    sentence: str
    code: str
    law: str


class WorkflowEntry(WorkflowHead):
    """*gpus*: what it holds now, if it runs; else of the pods that it was admitted with, and all before that.  *gpus_asked*: of all
    its tasks, at full count.  Both null: its file is no longer kept.

    *why* null: nothing of it waits, or something of it runs, or it was not asked for.  *node*: the first by name of the *nodes* on which
    its tasks run; null: none does."""

    model_config = example(_ENTRY | {"gpus": 4, "gpus_asked": 6, "why": None, "node": "n00", "nodes": 1})

    gpus: int | None
    gpus_asked: int | None
    why: WorkflowHeadline | None
    node: str | None
    nodes: int


class WorkflowPage(Page):
    """Newest first."""

    model_config = example({"items": [WorkflowEntry.example()], "next_cursor": None})

    items: list[WorkflowEntry]


class TaskAttempt(Shown):
    """One attempt of one pod.  *gpus*: the indices that it holds on its node; on Kubernetes only how many they are means something."""

    model_config = example(
        {
            "name": "main",
            "attempt": 0,
            "uuid": "0d7a1c52-64bb-5d8e-9a63-2f0f6b1c9d10",
            "status": "RUNNING",
            "message": "",
            "exit_code": None,
            "start_time": _STARTED,
            "end_time": None,
            "node": "n00",
            "gpus": [0],
            "lead": True,
        }
    )

    name: str
    attempt: int
    uuid: str
    status: str
    message: str
    exit_code: int | None
    start_time: datetime | None
    end_time: datetime | None
    node: str | None
    gpus: list[int]
    lead: bool


class TaskGroup(Shown):
    """*attempt* grows each time that the group is queued again; *preemptions* says how often that was for others.

    *upstream*: groups that it waits for; *downstream*: those that wait for it.  *pods*: of each task that accepts fewer pods, how many
    it asked for and got.
    """

    model_config = example(
        {
            "name": "main-group",
            "status": "RUNNING",
            "message": "",
            "queued_time": _SUBMITTED,
            "start_time": _STARTED,
            "end_time": None,
            "attempt": 0,
            "preemptions": 0,
            "upstream": [],
            "downstream": [],
            "pods": [],
            "tasks": [TaskAttempt.example()],
        }
    )

    name: str
    status: str
    message: str
    queued_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    attempt: int
    preemptions: int
    upstream: list[str]
    downstream: list[str]
    pods: list[PodsAnswer]
    tasks: list[TaskAttempt]


class Workflow(WorkflowHead, Tagged):
    """*backend*: who runs its tasks.  *message*: how it ended; *cause*: why, where a program of its own failed.  *repeats*: the workflow
    whose file it is again.  Timeouts in seconds, null: none.  *warnings*: what it prefers and does not have, such as one rack."""

    model_config = example(
        _ENTRY
        | {
            "backend": "default",
            "message": "",
            "cause": None,
            "cancelled_by": None,
            "repeats": None,
            "tags": [],
            "exec_timeout_s": None,
            "queue_timeout_s": None,
            "groups": [TaskGroup.example()],
            "warnings": [],
        }
    )

    backend: str
    message: str
    cause: WorkflowCause | None
    cancelled_by: str | None
    repeats: str | None
    tags: list[str]
    exec_timeout_s: float | None
    queue_timeout_s: float | None
    groups: list[TaskGroup]
    warnings: list[str]
