"""Nodes, as the osmo API has them."""

from typing import Any

from runrig.domain import shown
from runrig.osmo.nodes import resource
from runrig.wire.base import Answer, example, example_of

_NODE = resource(example_of(shown.Node), ["vision"], [])


class GpuAnswer(Answer):
    """The user of GPU *index* of a node; both null: work of a pool that you cannot see."""

    model_config = example({"index": 0, "workflow": "train-1", "task": "main"})

    index: int
    workflow: str | None
    task: str | None


class ResourceAnswer(Answer):
    """A node. The amounts in osmo fields are text: cores, and Gi, or a smaller unit if Gi would need more than three
    decimals. *free* has numbers: milli-cores, bytes, GPUs.

    *resource_type*: RESERVED for one pool, SHARED by several, UNUSED. *gpus*: one entry per GPU, null if it is free.
    *conditions*: Ready or NotReady, as in *ready*; then why it accepts no new pods: Cordoned (by runrig or in
    Kubernetes), NoFlavor (it matches none; *flavor* is empty) or Tainted (with taints that its flavor does not list).
    """

    model_config = example(_NODE)

    hostname: str
    backend: str
    exposed_fields: dict[str, Any]
    resource_type: str
    usage_fields: dict[str, str]
    non_workflow_usage_fields: dict[str, str]
    allocatable_fields: dict[str, str]
    platform_allocatable_fields: dict[str, dict[str, dict[str, str]]] | None
    platform_workflow_allocatable_fields: dict[str, dict[str, dict[str, str]]] | None = None
    platform_available_fields: dict[str, dict[str, dict[str, str]]] | None = None
    pool_platform_labels: dict[str, list[str]]
    label_fields: dict[str, str]
    taints: list[dict[str, str]]
    conditions: list[str]
    config_fields: dict[str, Any]
    ready: bool
    flavor: str
    free: dict[str, int]
    gpus: list[GpuAnswer | None]


class ResourcesAnswer(Answer):
    """*more_entries*: more nodes follow this page."""

    model_config = example({"resources": [_NODE], "more_entries": False})

    resources: list[ResourceAnswer]
    more_entries: bool = False
