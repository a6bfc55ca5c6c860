"""Workflows, as the osmo API has them. The examples are what it makes of those of runrig's own API."""

from datetime import datetime
from typing import Any

from pydantic import Field

from runrig.domain import shown
from runrig.osmo import workflows
from runrig.wire.base import Answer, Request, example, example_of

_LINKS = workflows.links("http://127.0.0.1:8700")
_WORKFLOW = workflows.workflow(example_of(shown.Workflow), _LINKS)
_ENTRY = workflows.entry(example_of(shown.WorkflowEntry), _LINKS)


class SubmitAnswer(Answer):
    """*name*: the id of the workflow. A dry run returns *spec*, the rendered text; otherwise *logs* is the address of
    the logs, or the result of a validation.
    """

    model_config = example(workflows.submitted(example_of(shown.WorkflowSubmitted), _LINKS))

    name: str
    overview: str | None = None
    logs: str | None = None
    spec: str | None = None
    warnings: list[str] = Field(default_factory=list)
    dashboard_url: str | None = None


class ListEntry(Answer):
    """*queued_time* and *duration* in seconds; *duration* null: not started. *gpus*: in use now, if it is running; else
    of the pods with which it was admitted, or of all its pods before that. *gpus_asked*: of all its tasks, at full
    count. Both null: its file was deleted.
    """

    model_config = example(_ENTRY)

    user: str
    name: str
    workflow_uuid: str
    submit_time: datetime
    start_time: datetime | None = None
    end_time: datetime | None = None
    queued_time: float
    duration: float | None = None
    status: str
    overview: str
    logs: str
    error_logs: str | None = None
    grafana_url: str | None = None
    dashboard_url: str | None = None
    pool: str | None = None
    app_owner: str | None = None
    app_name: str | None = None
    app_version: int | None = None
    priority: str
    labels: dict[str, str] = Field(default_factory=dict)
    gpus: int | None
    gpus_asked: int | None


class ListAnswer(Answer):
    model_config = example({"workflows": [_ENTRY], "more_entries": False})

    workflows: list[ListEntry]
    more_entries: bool


class TaskAnswer(Answer):
    """One attempt of one pod. *gpus*: their indices on its node; on Kubernetes only their number has a meaning."""

    model_config = example(_WORKFLOW["groups"][0]["tasks"][0])

    name: str
    retry_id: int
    status: str
    failure_message: str | None = None
    exit_code: int | None = None
    logs: str
    error_logs: str | None = None
    processing_start_time: datetime | None = None
    scheduling_start_time: datetime | None = None
    initializing_start_time: datetime | None = None
    events: str
    start_time: datetime | None = None
    end_time: datetime | None = None
    input_download_start_time: datetime | None = None
    input_download_end_time: datetime | None = None
    output_upload_start_time: datetime | None = None
    dashboard_url: str | None = None
    pod_name: str
    pod_ip: str | None = None
    task_uuid: str
    node_name: str | None = None
    lead: bool = False
    gpus: list[int] = Field(default_factory=list)


class GroupAnswer(Answer):
    """*attempt*: increases each time the group is requeued; *preemptions*: how often it was preempted.

    *pods*: for each task that accepts fewer pods, how many it requested and got.
    """

    model_config = example(_WORKFLOW["groups"][0])

    name: str
    status: str
    start_time: datetime | None = None
    end_time: datetime | None = None
    processing_start_time: datetime | None = None
    scheduling_start_time: datetime | None = None
    initializing_start_time: datetime | None = None
    remaining_upstream_groups: list[str] = Field(default_factory=list)
    downstream_groups: list[str] = Field(default_factory=list)
    failure_message: str | None = None
    tasks: list[TaskAnswer] = Field(default_factory=list)
    attempt: int = 0
    preemptions: int = 0
    pods: list[shown.PodCount] = Field(default_factory=list)


class PluginsAnswer(Answer):
    model_config = example({"rsync": False})

    rsync: bool = False


class WorkflowAnswer(Answer):
    """*spec*, *logs* and *events* are addresses. Timeouts, *duration* and *queued_time* in seconds."""

    model_config = example(_WORKFLOW)

    name: str
    uuid: str
    submitted_by: str
    cancelled_by: str | None = None
    spec: str
    template_spec: str
    logs: str
    events: str
    overview: str
    parent_name: str | None = None
    parent_job_id: int | None = None
    dashboard_url: str | None = None
    grafana_url: str | None = None
    tags: list[str] = Field(default_factory=list)
    submit_time: datetime
    start_time: datetime | None = None
    end_time: datetime | None = None
    exec_timeout: float | None = None
    queue_timeout: float | None = None
    duration: float | None = None
    queued_time: float
    status: str
    outputs: str = ""
    groups: list[GroupAnswer]
    pool: str | None = None
    backend: str | None = None
    app_owner: str | None = None
    app_name: str | None = None
    app_version: int | None = None
    plugins: PluginsAnswer = PluginsAnswer()
    priority: str
    labels: dict[str, str] = Field(default_factory=dict)
    warnings: list[str] = Field(default_factory=list)
    failure_message: str | None = None


class SubmitRequest(Request):
    """*file*: the text of a workflow file or template. *set_variables*: ``k=v`` for the template,
    *set_string_variables* as strings. *uploaded_templated_spec*: the template that the client rendered *file* from, if
    it did.
    """

    model_config = example(
        {
            "file": "workflow:\n  name: train\n  tasks:\n  - {name: main, image: ubuntu, command: [sleep, '5']}\n",
            "set_variables": [],
            "set_string_variables": [],
            "uploaded_templated_spec": None,
        }
    )

    file: str
    set_variables: list[str] = Field(default_factory=list)
    set_string_variables: list[str] = Field(default_factory=list)
    uploaded_templated_spec: str | None = None


class CancelAnswer(Answer):
    model_config = example({"name": "train-1"})

    name: str


class AppsAnswer(Answer):
    """Apps of the osmo API, which runrig does not have."""

    model_config = example({"apps": [], "more_entries": False})

    apps: list[dict[str, Any]]
    more_entries: bool


class TagsAnswer(Answer):
    model_config = example({"tags": ["paper", "sweep"]})

    tags: list[str]
