"""Configurations and their history, for the osmo client's `config` commands."""

from datetime import datetime
from typing import Any

from pydantic import Field

from runrig.api.osmo.models.pools import SaidRequest
from runrig.wire.base import Answer, Request, Whole, example

_TIME = "2026-01-31T12:00:00.250000"
_ENTRY: dict[str, Any] = {
    "config_type": "POOL",
    "name": "vision",
    "revision": 7,
    "username": "alice",
    "created_at": _TIME,
    "description": "more for June",
    "tags": ["june"],
    "data": None,
}


class ConfigRevision(Answer):
    """One change of pools. *name*: empty if it changed several. *data*: all declared pools after it, if requested."""

    model_config = example(_ENTRY)

    config_type: str
    name: str
    revision: int
    username: str
    created_at: datetime
    description: str
    tags: list[str]
    data: dict[str, Any] | None = None


class ConfigHistoryAnswer(Answer):
    model_config = example({"configs": [_ENTRY]})

    configs: list[ConfigRevision]


class ConfigDiffAnswer(Answer):
    """All declared pools after the first and after the second revision."""

    model_config = example(
        {"first_data": {"vision": {"description": ""}}, "second_data": {"vision": {"description": "ours"}}}
    )

    first_data: dict[str, Any]
    second_data: dict[str, Any]


class ConfigRollbackRequest(SaidRequest):
    """*description* and *tags*: of the new change."""

    model_config = example({"config_type": "POOL", "revision": 7, "description": "back to before June"})

    config_type: str
    revision: Whole


class ConfigTagRequest(Request):
    model_config = example({"set_tags": ["june"], "delete_tags": None})

    set_tags: list[str] | None = None
    delete_tags: list[str] | None = None


class ConfigTagsAnswer(Answer):
    """The tags of the revision."""

    model_config = example({"tags": ["june"]})

    tags: list[str]


class ConfigRollbackAnswer(Answer):
    """*revision*: of the new change; null: nothing differed."""

    model_config = example({"revision": 9})

    revision: int | None


class RolePolicyAnswer(Answer):
    model_config = example({"effect": "Allow", "actions": ["workflow:*"], "resources": ["pool/vision"]})

    effect: str = "Allow"
    actions: list[str]
    resources: list[str]


class RoleConfigAnswer(Answer):
    """A role under its osmo name. The permissions of roles are fixed."""

    model_config = example(
        {
            "name": "osmo-vision-user",
            "description": "submit to pool vision and its subpools",
            "policies": [RolePolicyAnswer.example()],
            "immutable": True,
            "sync_mode": "ignore",
            "external_roles": [],
        }
    )

    name: str
    description: str
    policies: list[RolePolicyAnswer]
    immutable: bool = True
    sync_mode: str = "ignore"
    external_roles: list[str] = Field(default_factory=list)


class BackendAnswer(Answer):
    model_config = example({"name": "lab", "description": "", "version": "0.1.0", "online": True})

    name: str
    description: str = ""
    version: str
    online: bool


class BackendsAnswer(Answer):
    model_config = example({"backends": [BackendAnswer.example()]})

    backends: list[BackendAnswer]


class WorkflowConfigAnswer(Answer):
    """Settings for all workflows. *subpool_drain_interval*: how often DELETING pools are checked (rule S3)."""

    model_config = example(
        {
            "max_num_tasks": 1000,
            "subpool_drain_interval": "900s",
            "default_exec_timeout": "",
            "default_queue_timeout": "",
        }
    )

    max_num_tasks: int
    subpool_drain_interval: str
    default_exec_timeout: str = ""
    default_queue_timeout: str = ""


class ServiceConfigAnswer(Answer):
    model_config = example({"service_base_url": "http://127.0.0.1:8700", "subpool_drain_interval": "900s"})

    service_base_url: str
    subpool_drain_interval: str
