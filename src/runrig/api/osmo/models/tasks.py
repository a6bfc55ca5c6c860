"""Tasks of many workflows, and sessions in tasks, as the osmo API has them. Memory and storage in Gi, CPU in cores."""

from datetime import datetime
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from runrig.wire.base import Answer, example

_URL = "http://127.0.0.1:8700/api/workflow/train-1"
_ENTRY: dict[str, Any] = {
    "user": "alice",
    "workflow_id": "train-1",
    "workflow_uuid": "6f1d3c0b2a4e4f6f8a7b9c0d1e2f3a4b",
    "task_name": "main",
    "retry_id": 0,
    "status": "RUNNING",
    "pool": "vision",
    "priority": "NORMAL",
    "node": "n0",
    "start_time": "2026-01-31T12:00:00",
    "end_time": None,
    "duration": 60.5,
    "overview": _URL,
    "logs": f"{_URL}/logs?task_name=main&retry_id=0",
    "error_logs": f"{_URL}/error_logs?task_name=main&retry_id=0",
    "grafana_url": None,
    "dashboard_url": None,
    "storage": 0,
    "cpu": 16,
    "memory": 64,
    "gpu": 8,
}


class TaskEntry(Answer):
    """One attempt of one pod. *node* null: not assigned yet. Amounts are those it requests."""

    model_config = example(_ENTRY)

    user: str
    workflow_id: str
    workflow_uuid: str
    task_name: str
    retry_id: int
    status: str
    pool: str
    priority: str
    node: str | None
    start_time: datetime | None
    end_time: datetime | None
    duration: float | None
    overview: str
    logs: str
    error_logs: str
    grafana_url: str | None = None
    dashboard_url: str | None = None
    storage: int | float
    cpu: int | float
    memory: int | float
    gpu: int


class TaskListAnswer(Answer):
    model_config = example({"tasks": [_ENTRY]})

    tasks: list[TaskEntry]


_SUM = {"user": "alice", "pool": "vision", "priority": "NORMAL", "storage": 0, "cpu": 16, "memory": 64, "gpu": 8}


class TaskSumEntry(Answer):
    """*workflow_id*: set if the sums are per workflow."""

    model_config = example(_SUM)

    user: str
    pool: str
    priority: str
    workflow_id: str | None = None
    storage: int | float
    cpu: int | float
    memory: int | float
    gpu: int

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


class TaskSumsAnswer(Answer):
    """Replaces the tasks if sums are requested."""

    model_config = example({"summaries": [_SUM]})

    summaries: list[TaskSumEntry]


class RouterAnswer(Answer):
    """Where to connect: ``{router_address}/api/router/KIND/{workflow}/client/{key}``, within a minute and with a token
    of the same user.

    *cookie*: always empty, because the server itself is the only router.
    """

    model_config = example(
        {"router_address": "ws://127.0.0.1:8700", "key": "EXEC-2vQb0cCkq3mV6aT1y0nXzw", "cookie": ""}
    )

    router_address: str
    key: str
    cookie: str = ""


class RsyncPathAnswer(Answer):
    model_config = example({"path": "/", "writable": True})

    path: str
    writable: bool


class RsyncAnswer(Answer):
    """*allowed_paths*: name of an rsync module → its absolute path in the task, in addition to the usual workspace."""

    model_config = example({"enabled": True, "allowed_paths": {"root": RsyncPathAnswer.example()}})

    enabled: bool = True
    allowed_paths: dict[str, RsyncPathAnswer]


class PluginConfigsAnswer(Answer):
    model_config = example({"rsync": RsyncAnswer.example()})

    rsync: RsyncAnswer
