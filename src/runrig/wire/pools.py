"""Pools and cohorts: their settings and usage.

The fields of the osmo API come first, then those of runrig. GPUs are whole numbers; a limit of null means no limit.
"""

from typing import Any, get_type_hints

from pydantic import Field, create_model

from runrig.domain.pools import Quota, TopologyKey
from runrig.domain.records import Said
from runrig.domain.settings import SETTINGS, Choice
from runrig.domain.shown.pools import Balance, Pool
from runrig.wire.base import NUMBERS, Answer, Request, Whole, edits_of, example, example_of


class CountableAnswer(Answer):
    """A quota in the format of the osmo API: -1 means no limit."""

    model_config = example({"guarantee": 8, "maximum": -1, "weight": 1})

    guarantee: int
    maximum: int
    weight: int


class PoolResourcesAnswer(Answer):
    model_config = example({"gpu": CountableAnswer.example()})

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


_VISION = example_of(Pool)
_SETTINGS: dict[str, Any] = {each.name: _VISION[each.name] for each in SETTINGS} | {
    "name": "vision",
    "status": "ONLINE",
    "backend": "default",
    "download_type": None,
    "enable_maintenance": False,
    "default_exec_timeout": "",
    "default_queue_timeout": "",
    "max_exec_timeout": "",
    "max_queue_timeout": "",
    "resources": PoolResourcesAnswer.example(),
    "platforms": {"default": {"labels": {}}},
    "quotas": {"default": {"gpu": example_of(Quota)}},
    "closed_by": None,
    "closed_reason": "",
    "paused_by": None,
    "paused_reason": "",
    "paused_until": None,
    "state": "ACTIVE",
    "parent": None,
    "subpool_name": None,
    "subpool_state": None,
}


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

    model_config = example(
        {
            "quota_used": "4",
            "quota_free": "4",
            "quota_limit": "8",
            "total_usage": "6",
            "total_capacity": "16",
            "total_free": "10",
        }
    )

    quota_used: str
    quota_free: str
    quota_limit: str
    total_usage: str
    total_capacity: str
    total_free: str


_POOL: dict[str, Any] = {
    **_SETTINGS,
    "resource_usage": ResourceUsageAnswer.example(),
    "subpools": [],
    "quota": 8,
    "unallocated": 8,
    "used": 4,
    "low": 2,
    "subtree_used": 4,
    "total": 6,
    "available": 4,
    "shared": {},
    "drawn": 0,
    "shared_left": 0,
    "borrowed": 0,
    "lent": 2,
    "held": 0,
    "capacity": 16,
    "workflows": 1,
    "balances": {"default/gpu": example_of(Balance)},
}


class PoolAnswer(PoolSettingsAnswer):
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

    resource_usage: ResourceUsageAnswer
    subpools: list[str]
    quota: int
    unallocated: int
    used: int
    low: int
    subtree_used: int
    total: int
    available: int
    shared: dict[str, int]
    drawn: int
    shared_left: int
    borrowed: int
    lent: int
    held: int
    capacity: int
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


QuotaRequest = Whole | str | dict[str, Any]
"""GPUs; ``h100=8,b200=4``; or the full form of a cluster file: ``{h100: {gpu: {nominal: 8, borrowing_limit: 8}}}``.

A part of the text form is FLAVOR=GPUS, RESOURCE=AMOUNT or FLAVOR/RESOURCE=AMOUNT; ``none`` as the amount removes the
quota.
"""

LimitRequest = Whole | str
"""GPUs of the only flavor; or ``h100=8,b200/cpu=none`` as in a quota, where ``none`` means no limit."""


_ASKED: dict[str, Any] = {each.asked: (NUMBERS.get(each.kind.takes, each.kind.takes) | None, None) for each in SETTINGS}
_Settings: Any = create_model("_Settings", __base__=Request, **_ASKED)


class PoolEditRequest(_Settings):  # type: ignore[misc]  # a field for each row of `domain.settings`
    """Missing fields keep their values. null removes *cohort*, *default_platform*, a limit or a run time.

    Run times: ``90m``, ``2h``.
    """

    model_config = example({"quota": 12, "borrowing_limit": 4})

    quota: QuotaRequest | None = None
    borrowing_limit: LimitRequest | None = None
    lending_limit: LimitRequest | None = None


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


class CohortEditRequest(Request):
    """Missing fields keep their values. null removes *parent* or a limit."""

    model_config = example({"quota": 16, "lending_limit": 8})

    parent: str | None = None
    quota: QuotaRequest | None = None
    borrowing_limit: LimitRequest | None = None
    lending_limit: LimitRequest | None = None
    weight: Whole | None = None
