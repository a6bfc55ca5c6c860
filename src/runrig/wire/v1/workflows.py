"""Workflows of our own door: submitting them, and everything that can be asked of them."""

from typing import Literal

from pydantic import Field

from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.wire.base import Request, example, example_of
from runrig.wire.v1.base import Shown, Tagged
from runrig.wire.v1.problems import ProblemDetails

PriorityName = Literal["HIGH", "NORMAL", "LOW"]
_FILE = "workflow:\n  name: train\n  tasks:\n  - {name: main, image: ubuntu, command: [sleep, '5']}\n"


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
    *keep_completed*: the same, and its COMPLETED groups are not run again: the other groups read their outputs.
    *priority*: else that of the first time."""

    model_config = example({"pool": "vision", "failed_only": True})

    pool: str
    priority: PriorityName | None = None
    failed_only: bool = False
    keep_completed: bool = False


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
