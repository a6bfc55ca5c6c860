"""Pools, as the osmo API has them: its own fields come first, then those of runrig. The examples are what it makes of runrig's own."""

from dataclasses import fields
from typing import Any, get_type_hints

from pydantic import Field, create_model

from runrig.domain import shown
from runrig.domain.pools import Quota, TopologyKey
from runrig.domain.records import Said
from runrig.domain.settings import SETTINGS, Choice
from runrig.domain.shown.pools import Balance, Pool, PoolGpus
from runrig.domain.value import Amounts
from runrig.osmo import pools
from runrig.wire.base import Answer, edits_of, example, example_of

_PLATFORMS = pools.platforms_of([example_of(shown.Flavor)])
_SETTINGS = pools.settings(example_of(Pool), _PLATFORMS)
_POOL = pools.pool(example_of(Pool), _PLATFORMS)


class CountableAnswer(Answer):
    """A quota in the format of the osmo API: -1 means no limit."""

    model_config = example(_POOL["resources"]["gpu"])

    guarantee: int
    maximum: int
    weight: int


class PoolResourcesAnswer(Answer):
    model_config = example(_POOL["resources"])

    gpu: CountableAnswer | None


class PlatformAnswer(Answer):
    """A flavor, as a platform of the osmo API."""

    model_config = example({"host_network_allowed": False, "privileged_allowed": False, "labels": {"gpu": "h100"}})

    description: str = ""
    host_network_allowed: bool = False
    privileged_allowed: bool = False
    allowed_mounts: list[str] = Field(default_factory=list)
    default_mounts: list[str] = Field(default_factory=list)
    tolerations: list[dict[str, str]] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)


class _HandWritten(Answer):
    """Fields of the osmo API, and fields that are not settings."""

    name: str
    description: str
    status: str
    backend: str
    download_type: str | None = None
    enable_maintenance: bool = False
    default_platform: str | None
    default_exec_timeout: str = ""
    default_queue_timeout: str = ""
    max_exec_timeout: str = ""
    max_queue_timeout: str = ""
    default_exit_actions: dict[str, str]
    resources: PoolResourcesAnswer
    topology_keys: list[TopologyKey]
    platforms: dict[str, PlatformAnswer]
    quotas: dict[str, dict[str, Quota]]
    closed_by: str | None
    closed_reason: str
    paused_by: str | None
    paused_reason: str
    paused_until: str | None
    state: str
    parent: str | None
    subpool_name: str | None
    subpool_state: str | None


_TYPES = get_type_hints(Pool)
_OURS: dict[str, Any] = {
    each.name: (_TYPES[each.name] if not isinstance(each.kind, Choice) else str | None if each.removable else str, ...)
    for each in SETTINGS
    if each.name not in _HandWritten.model_fields
}
_PoolWithSettings: Any = create_model("_PoolWithSettings", __base__=_HandWritten, **_OURS)


class PoolSettingsAnswer(_PoolWithSettings):  # type: ignore[misc]  # a field for each row of `domain.settings`
    """*quotas*: flavor → resource → quota. *flavors* empty: all of them. *subpool_state*: null for a top-level pool."""

    model_config = example(_SETTINGS)


class PoolsAnswer(Answer):
    model_config = example({"pools": {"vision": _SETTINGS}})

    pools: dict[str, PoolSettingsAnswer]


class ResourceUsageAnswer(Answer):
    """The six numbers of the osmo API, as strings. The totals cover all pools that share the nodes."""

    model_config = example(_POOL["resource_usage"])

    quota_used: str
    quota_free: str
    quota_limit: str
    total_usage: str
    total_capacity: str
    total_free: str


_USAGE: dict[str, Any] = {
    "resource_usage": (ResourceUsageAnswer, ...),
    "subpools": (list[str], ...),
    **{each.name: (dict[str, int] if each.type is Amounts else each.type, ...) for each in fields(PoolGpus)},
}
_PoolWithUsage: Any = create_model("_PoolWithUsage", __base__=PoolSettingsAnswer, **_USAGE)


class PoolAnswer(_PoolWithUsage):  # type: ignore[misc]  # a field for each of `domain.shown.pools.PoolGpus`
    """A pool with its usage, in GPUs of all its flavors.

    *used*: its own HIGH and NORMAL workflows; *low*: its own LOW workflows; *subtree_used*: *used* including subpools;
    *total*: all GPUs in use, including subpools. *available*: unallocated - used + drawn; negative while the pool
    drains. *borrowed*, *lent*: by the pool alone, including from and to its subpools. *shared*: cohort → guaranteed
    GPUs of HIGH and NORMAL workflows in addition to unallocated (rule P2); *drawn*: how many of them these workflows
    use; *shared_left*: how many are left. *held*: the quota that a DELETING subpool still uses; its quota is shown as
    0. *workflows*: the pool's own that have not ended. *balances*: ``flavor/resource`` → the pool's node of the quota
    tree.
    """

    model_config = example(_POOL)

    workflows: int
    balances: dict[str, Balance]


class NodeSetAnswer(Answer):
    """Pools that share nodes, directly or through others."""

    model_config = example({"pools": [_POOL]})

    pools: list[PoolAnswer]


class PoolQuotaAnswer(Answer):
    model_config = example({"node_sets": [NodeSetAnswer.example()], "resource_sum": ResourceUsageAnswer.example()})

    node_sets: list[NodeSetAnswer]
    resource_sum: ResourceUsageAnswer


_Said = edits_of(Said)


class SaidRequest(_Said):  # type: ignore[misc, valid-type]
    """*description* and *tags*: of a change, in the history."""

    model_config = example({"description": "for June", "tags": ["june"]})


class PoolPatchRequest(SaidRequest):
    """*configs_dict*: the settings to change, as they are shown."""

    model_config = example({"configs_dict": {"resources": {"gpu": {"guarantee": 8}}}, "description": "for June"})

    configs_dict: dict[str, Any]


class PoolsPutRequest(SaidRequest):
    """*configs*: settings of pools as they are shown, by name. Missing pools and settings stay unchanged."""

    model_config = example({"configs": {"vision": {"description": "eyes"}}, "description": "for June"})

    configs: dict[str, dict[str, Any]]
