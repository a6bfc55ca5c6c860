"""Workflows of API v1: requests to submit, change and query them."""

from typing import Any, Literal

from pydantic import Field

from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.domain.workflows import MOST_ELEMENTS
from runrig.wire.base import Model, Request, Whole, example, example_of
from runrig.wire.v1.problems import ProblemDetails

PriorityName = Literal["HIGH", "NORMAL", "LOW"]
_FILE = "workflow:\n  name: train\n  tasks:\n  - {name: main, image: ubuntu, command: [sleep, '5']}\n"


class WorkflowFile(Request):
    """*file*: the text of a workflow file or template. *variables*: ``k=v`` for the template, *string_variables* as
    strings. *template*: what the client rendered *file* from, if it did.
    """

    model_config = example({"file": _FILE, "variables": [], "string_variables": []})

    file: str
    variables: list[str] = Field(default_factory=list)
    string_variables: list[str] = Field(default_factory=list)
    template: str | None = None


class _Options(Request):
    """Options of one submission, or of all submissions of a batch."""

    pool: str
    priority: PriorityName | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    retry: str | None = None
    after: list[str] = Field(default_factory=list)
    array: str | None = None
    sweep: list[str] = Field(default_factory=list)
    most: Whole | None = Field(default=None, ge=1, le=MOST_ELEMENTS)


class WorkflowSubmit(WorkflowFile, _Options):
    """*priority*: overrides that of the file; the default is NORMAL. *environment*: for every task. *labels*: override
    those of the file. *retry*: ``N[:CODES]``; restart every task after these exit codes (1-255 if not set), at most N times.
    *after*: ``ID[:ok|any|fail]``, or ``ID/INDEX`` for an element of an array; what has to end first, in addition to the file.
    *array*: ``INDICES[%N]``, or *sweep*: ``NAME=V,V``, makes the only group of the file an array; *most*: elements at a time.
    """

    model_config = example(
        {"pool": "vision", "file": _FILE, "priority": "LOW", "environment": {"SEED": "1"}, "variables": []}
    )


class WorkflowRepeat(Request):
    """*pool*: where to submit the file again. *failed_only*: refused unless the workflow failed; it keeps its priority.
    *keep_completed*: like *failed_only*, but COMPLETED groups do not run again; other groups read their outputs.
    *code*: like *failed_only*, with this code instead of its own; *labels* are then added.
    *priority*: by default that of the original.
    """

    model_config = example({"pool": "vision", "failed_only": True})

    pool: str
    priority: PriorityName | None = None
    failed_only: bool = False
    keep_completed: bool = False
    code: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class WorkflowRender(WorkflowSubmit):
    """*namespace*: of the gangs; by default that of the server."""

    model_config = example({"pool": "vision", "file": _FILE, "namespace": "runrig"})

    namespace: str | None = None


class RenderAnswer(Model):
    """*objects*: Kubernetes objects in the order in which a cluster needs them."""

    model_config = example(
        {
            "objects": [
                {
                    "apiVersion": "kai.scheduler/v1alpha1",
                    "kind": "Topology",
                    "metadata": {"name": "osmo-pool-runrig-vision-topology"},
                    "spec": {"levels": [{"nodeLabel": "topology.kubernetes.io/rack"}]},
                }
            ]
        }
    )

    objects: list[dict[str, Any]]


class WorkflowBatch(_Options):
    """*workflows*: 1 to 1,000, or up to 200 with *all_or_nothing*, where one refusal refuses all."""

    model_config = example({"pool": "vision", "workflows": [WorkflowFile.example()], "all_or_nothing": False})

    workflows: list[WorkflowFile]
    all_or_nothing: bool = False


class WorkflowCheck(WorkflowSubmit):
    """*template_only*: only render the template, because the client still has to insert files."""

    template_only: bool = False


class WorkflowChecked(Model):
    """The result of a submission, and the rendered file. *id*: with `?` for its number; null: only rendered.

    *verdict*: what the next cycle would do with it; null if that is unknown.
    """

    model_config = example({"id": "train-?", "file": _FILE, "warnings": [], "verdict": example_of(WorkflowDryRun)})

    id: str | None
    file: str
    warnings: list[str]
    verdict: WorkflowDryRun | None


class WorkflowOutcome(Model):
    """The result of one workflow of a batch: its new *id*, or the *problem* for which it was not submitted."""

    model_config = example({"id": "train-1", "warnings": [], "problem": None})

    id: str | None = None
    warnings: list[str] = Field(default_factory=list)
    problem: ProblemDetails | None = None


class WorkflowOutcomes(Model):
    """*submitted*: their number. *outcomes*: one per workflow, in the order of the request."""

    model_config = example({"submitted": 1, "outcomes": [WorkflowOutcome.example()]})

    submitted: int
    outcomes: list[WorkflowOutcome]


class WorkflowCancel(Request):
    """*message*: the reason, for its owner."""

    model_config = example({"message": "wrong data"})

    message: str = Field(default="", max_length=1000)


class WorkflowCancelled(Model):
    """It is stopping now."""

    model_config = example({"id": "train-1"})

    id: str


class WorkflowReassign(Request):
    """null: unchanged. *dry_run*: only return the effect."""

    model_config = example({"pool": "vision", "priority": "LOW", "dry_run": False})

    pool: str | None = None
    priority: PriorityName | None = None
    dry_run: bool = False


class WorkflowReassigned(Model):
    """*verdict*: for a dry run, what the next cycle would do with it; null: unknown, or the workflow is not in the
    queue. *on_nodes*: for a dry run, the effect on what is on nodes, in words; empty: nothing is.
    """

    model_config = example({"id": "train-1", "verdict": None, "on_nodes": ""})

    id: str
    verdict: WorkflowDryRun | None
    on_nodes: str = ""


class WorkflowArrayEdit(Request):
    """*most*: how many elements may be queued or running at a time, 1 to 1,000. *dry_run*: only return the effect."""

    model_config = example({"most": 5, "dry_run": False})

    most: Whole
    dry_run: bool = False


class WorkflowArrayChanged(Model):
    """*queued*, *unqueued*: how many elements would enter and leave the queue now; null unless it was a dry run."""

    model_config = example({"id": "sweep-4", "most": 5, "queued": None, "unqueued": None})

    id: str
    most: int
    queued: int | None = None
    unqueued: int | None = None


class WorkflowNamed(Model):
    """The workflow that was changed."""

    model_config = example({"id": "train-1"})

    id: str


class WorkflowTagEdit(Request):
    """Tags to add and to remove."""

    model_config = example({"add": ["paper"], "remove": []})

    add: list[str] = Field(default_factory=list)
    remove: list[str] = Field(default_factory=list)
