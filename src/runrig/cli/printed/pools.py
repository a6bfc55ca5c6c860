"""Pools, their history, and the JSON of `pool list`: the osmo client's `pool_quota` with additional fields."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.quantities import GPU
from runrig.domain.spans import format_duration
from runrig.osmo.shape import naive

Answer = Mapping[str, Any]

NO_LIMIT = -1
"""No limit, only in the osmo client's fields."""
NOT_IN_IT = "what was declared; what ran and waited there then, and so used, total and available, is not part of it"
_STATUS = {"ACTIVE": "ONLINE", "DELETING": "MAINTENANCE", "ARCHIVED": "OFFLINE"}
_NOT_HERE = {
    "download_type": None,
    "enable_maintenance": False,
    "default_queue_timeout": "",
    "max_queue_timeout": "",
}


def pool_quota(pools: Iterable[Answer], flavors: Sequence[Answer]) -> dict[str, Any]:
    """Returns pools in sets that share nodes. The sums count the nodes of a set once, and every pool (a subpool's share
    is not in its parent's unallocated).
    """
    sets: dict[str, list[Answer]] = {}
    for each in pools:
        sets.setdefault(each["nodes"]["set"], []).append(each)
    gpus = [each["gpus"] for pools in sets.values() for each in pools]
    nodes = [pools[0]["nodes"] for pools in sets.values()]
    tops = [each["gpus"] for pools in sets.values() for each in pools if each["parent"] is None]
    sums = {name: sum(each[name] for each in gpus) for name in ("used", "available", "unallocated")}
    # A parent's total includes its subpools'.
    sums["total"] = sum(each["total"] for each in tops)
    share = {name: sum(each[name] for each in nodes) for name in ("gpus", "free_gpus")}
    return {
        "node_sets": [{"pools": [pool(each, flavors) for each in pools]} for pools in sets.values()],
        "resource_sum": _usage(sums, share),
    }


def pool(answer: Answer, flavors: Sequence[Answer]) -> dict[str, Any]:
    """*flavors*: all, for the osmo client's platforms."""
    return {
        **_declared(answer),
        "status": _STATUS["DELETING" if answer["closed_by"] and answer["state"] == "ACTIVE" else answer["state"]],
        "backend": answer["backend"],
        **_NOT_HERE,
        "default_exec_timeout": _duration(answer["default_run_time_s"]),
        "max_exec_timeout": _duration(answer["max_run_time_s"]),
        "resources": {"gpu": _countable(answer)},
        "platforms": {
            each["name"]: _platform(each) for each in flavors if each["name"] in (answer["flavors"] or [each["name"]])
        },
        "resource_usage": _usage(answer["gpus"], answer["nodes"]),
        **answer["gpus"],
        **{name: answer[name] for name in ("subpools", "workflows", "balances")},
    }


_DECLARED = (
    "name",
    "description",
    "state",
    "cohort",
    "parent",
    "quotas",
    "queueing",
    "weight",
    "grace_s",
    "flavors",
    "topology_keys",
    "default_platform",
    "default_exit_actions",
    "default_run_time_s",
    "max_run_time_s",
    "closed_by",
    "closed_reason",
)


def _declared(answer: Answer) -> dict[str, Any]:
    subpool = answer["parent"] is not None
    return {
        **{name: answer[name] for name in _DECLARED},
        "subpool_name": answer["name"].partition(SUBPOOL_DELIMITER)[2] if subpool else None,
        "subpool_state": answer["state"] if subpool else None,
    }


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def _countable(answer: Answer) -> dict[str, int]:
    gpus = [resources[GPU] for resources in answer["quotas"].values() if GPU in resources]
    guarantee = sum(quota["nominal"] for quota in gpus)
    limits = [quota["borrowing_limit"] for quota in gpus if quota["borrowing_limit"] is not None]
    maximum = guarantee + sum(limits) if gpus and len(limits) == len(gpus) else NO_LIMIT
    return {"guarantee": guarantee, "maximum": maximum, "weight": answer["weight"]}


def _platform(flavor: Answer) -> dict[str, Any]:
    return {"description": "", **allowed(flavor), "tolerations": flavor["taints"], "labels": flavor["node_labels"]}


def allowed(flavor: Answer) -> dict[str, Any]:
    """Returns what tasks may do on nodes of *flavor*, as the osmo client reads it."""
    return {
        "host_network_allowed": "hostNetwork" in flavor["allow"],
        "privileged_allowed": "privileged" in flavor["allow"],
        "default_mounts": [],
        "allowed_mounts": [],
    }


def _usage(gpus: Answer, nodes: Answer) -> dict[str, str]:
    """Returns the osmo client's six numbers, as text."""
    return {
        "quota_used": str(gpus["used"]),
        "quota_free": str(gpus["available"]),
        "quota_limit": str(gpus["unallocated"]),
        "total_usage": str(gpus["total"]),
        "total_capacity": str(nodes["gpus"]),
        "total_free": str(nodes["free_gpus"]),
    }


# ---------------------------------------------------------------- the audit trail


def history(name: str, entries: Sequence[Answer], *, more: bool) -> dict[str, Any]:
    """*next*: the last of *entries*, if *more* follow."""
    following = f"{entries[-1]['revision']}.{entries[-1]['seq']}" if more else None
    return {"pool": name, "entries": [_change(each) for each in entries], "next": following}


def _change(entry: Answer) -> dict[str, Any]:
    return {**entry, "time": naive(entry["time"])}


def past(answer: Answer) -> dict[str, Any]:
    """A pool and its subpools at an earlier time."""
    return {
        "at": str(naive(answer["at"])).removesuffix(".999999"),  # As it was requested.
        "note": NOT_IN_IT,
        "pool": _then(answer["pool"]),
        "subpools": [_then(each) for each in answer["subpools"]],
    }


def _then(answer: Answer) -> dict[str, Any]:
    numbers = {name: answer[name] for name in ("quota", "unallocated")}
    return {
        **_declared(answer),
        **numbers,
        "closed_since": naive(answer["closed_since"]),
        "changed": _change(answer["changed"]),
    }


# ---------------------------------------------------------------- cohorts


def quota_tree(answer: Answer) -> dict[str, Any]:
    return {"cohorts": answer["nodes"], "root": answer["root"], "overpromised": answer["overpromised"]}
