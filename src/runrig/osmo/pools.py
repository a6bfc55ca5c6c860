"""Pools, and `pool_quota`: what they were given, what they use of it, and the nodes that they share."""

from collections.abc import Iterable, Mapping
from operator import itemgetter

from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.quantities import GPU
from runrig.domain.settings import SETTINGS
from runrig.osmo.shape import Answer, Shape, naive

NO_LIMIT = -1
"""Stands for no limit, only in the osmo client's fields."""
_STATUS = {
    "ACTIVE": "ONLINE",
    "DELETING": "MAINTENANCE",  # its work runs, and it takes no submissions
    "ARCHIVED": "OFFLINE",
}

# Read together, because a response can contain thousands of pools.
_SETTINGS = [each.name for each in SETTINGS]
_VALUES = itemgetter(*_SETTINGS)
_REFERENCED = [each for each in SETTINGS if each.reference]

Platforms = Mapping[str, Shape]
"""All flavors by name, as the osmo client has them.  Made once for all pools of an answer."""


def platforms_of(flavors: Iterable[Answer]) -> Platforms:
    return {each["name"]: _platform(each) for each in flavors}


def pool_quota(pools: Iterable[Answer], platforms: Platforms) -> Shape:
    """Pools in sets that share nodes.

    The sums count the nodes of each set once, and every pool (a subpool's share is not in its parent's unallocated).
    """
    sets: dict[str, list[Shape]] = {}
    nodes: dict[str, Answer] = {}
    gpus = []
    subpools: dict[str, Shape] = {}
    for each in pools:
        shared = each["nodes"]
        nodes[shared["set"]] = shared
        gpus.append(each["gpus"])
        sets.setdefault(shared["set"], []).append(pool(each, platforms, subpools))
    used = {name: sum([each[name] for each in gpus]) for name in ("used", "low", "available", "unallocated")}
    share = {name: sum([each[name] for each in nodes.values()]) for name in ("gpus", "free_gpus")}
    return {"node_sets": [{"pools": each} for each in sets.values()], "resource_sum": _usage(used, share)}


def pool(answer: Answer, platforms: Platforms, subpools: dict[str, Shape] | None = None) -> Shape:
    shape = settings(answer, platforms, subpools)
    shape["resource_usage"] = _usage(answer["gpus"], answer["nodes"])
    shape["subpools"] = answer["subpools"]
    shape |= answer["gpus"]
    shape["workflows"], shape["balances"] = answer["workflows"], answer["balances"]
    return shape


def settings(answer: Answer, platforms: Platforms, subpools: dict[str, Shape] | None = None) -> Shape:
    """The settings of a pool, as `config show POOL` has them: the osmo client's fields first.

    *subpools*: the settings of a subpool of each parent so far. Others have the same, except for what is their own.
    """
    state, parent = answer["state"], answer["parent"]
    own = {
        "name": answer["name"],
        "status": _STATUS["DELETING" if answer["closed_by"] is not None and state == "ACTIVE" else state],
        "resources": {"gpu": _countable(answer)},
        "quotas": answer["quotas"],
        "closed_by": answer["closed_by"],
        "closed_reason": answer["closed_reason"],
        "paused_by": answer["paused_by"],
        "paused_reason": answer["paused_reason"],
        "paused_until": naive(answer["paused_until"]),
        "state": state,
        "parent": parent,
        "subpool_name": None if parent is None else answer["name"].partition(SUBPOOL_DELIMITER)[2],
        "subpool_state": None if parent is None else state,
    }
    if subpools is None or parent is None:
        return _ordered(answer, platforms, own)
    if parent not in subpools:
        subpools[parent] = _ordered(answer, platforms, own)
    return {**subpools[parent], **own}


def _ordered(answer: Answer, platforms: Platforms, own: Shape) -> Shape:
    """All settings. *own*: those that differ between the subpools of a pool."""
    flavors = answer["flavors"]
    shape = {
        "name": own["name"],
        "description": answer["description"],
        "status": own["status"],
        "backend": answer["backend"],
        "download_type": None,
        "enable_maintenance": False,
        "default_platform": answer["default_platform"],
        "default_exec_timeout": "",
        "default_queue_timeout": "",
        "max_exec_timeout": "",
        "max_queue_timeout": "",
        "default_exit_actions": answer["default_exit_actions"],
        "resources": own["resources"],
        "topology_keys": answer["topology_keys"],
        "platforms": {name: platforms[name] for name in flavors if name in platforms} if flavors else platforms,
    }
    shape |= own
    shape.update(zip(_SETTINGS, _VALUES(answer), strict=True))
    for setting in _REFERENCED:
        shape[setting.reference] = setting.text(answer[setting.name])
    return shape


def _countable(answer: Answer) -> Shape:
    gpus = [resources[GPU] for resources in answer["quotas"].values() if GPU in resources]
    guarantee = sum([quota["nominal"] for quota in gpus])
    limits = [quota["borrowing_limit"] for quota in gpus if quota["borrowing_limit"] is not None]
    maximum = guarantee + sum(limits) if gpus and len(limits) == len(gpus) else NO_LIMIT
    return {"guarantee": guarantee, "maximum": maximum, "weight": answer["weight"]}


def _platform(flavor: Answer) -> Shape:
    allow = flavor["allow"]
    return {
        "description": "",
        "host_network_allowed": "hostNetwork" in allow,
        "privileged_allowed": "privileged" in allow,
        "allowed_mounts": [],
        "default_mounts": [],
        "tolerations": flavor["taints"],
        "labels": flavor["node_labels"],
    }


def _usage(gpus: Answer, nodes: Answer) -> dict[str, str]:
    """The osmo client's six numbers, as text.

    *total_usage*: a pool's own work of all priorities: its subpools have rows of their own, and the client adds all rows up.
    """
    return {
        "quota_used": str(gpus["used"]),
        "quota_free": str(gpus["available"]),
        "quota_limit": str(gpus["unallocated"]),
        "total_usage": str(gpus["used"] + gpus["low"]),
        "total_capacity": str(nodes["gpus"]),
        "total_free": str(nodes["free_gpus"]),
    }
