"""The history of pools, and the quota tree."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.settings import SETTINGS
from runrig.osmo import pools
from runrig.osmo.shape import naive

Answer = Mapping[str, Any]

NOT_IN_IT = "the declared settings; past usage (used, total and available) is not included"


_DECLARED = (
    "name",
    "state",
    "parent",
    *(each.name for each in SETTINGS),
    "quotas",
    "closed_by",
    "closed_reason",
    "paused_by",
    "paused_reason",
)


def _declared(answer: Answer) -> dict[str, Any]:
    subpool = answer["parent"] is not None
    return {
        **{name: answer[name] for name in _DECLARED},
        "subpool_name": answer["name"].partition(SUBPOOL_DELIMITER)[2] if subpool else None,
        "subpool_state": answer["state"] if subpool else None,
    }


def shown(answer: Answer, flavors: Iterable[Answer]) -> dict[str, Any]:
    """A pool, in the shape of the osmo client. *flavors*: all of the cluster."""
    return pools.pool(answer, pools.platforms_of(flavors))


def deleted(answer: Answer, flavors: Iterable[Answer]) -> dict[str, Any]:
    """A pool that is deleted, or would be, with the workflows that are cancelled."""
    return shown(answer["pool"], flavors) | {"cancelled": answer["cancelled"]}


def history(name: str, entries: Sequence[Answer], *, more: bool) -> dict[str, Any]:
    """*next*: the last of *entries*, if *more* follow."""
    following = f"{entries[-1]['revision']}.{entries[-1]['seq']}" if more else None
    return {"pool": name, "entries": [_change(each) for each in entries], "next": following}


def _change(entry: Answer) -> dict[str, Any]:
    return {**entry, "time": naive(entry["time"])}


def past(answer: Answer) -> dict[str, Any]:
    """A pool and its subpools at an earlier time."""
    return {
        "at": str(naive(answer["at"])).removesuffix(".999999"),  # The amount as it was requested.
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
        "paused_since": naive(answer["paused_since"]),
        "paused_until": naive(answer["paused_until"]),
        "changed": _change(answer["changed"]),
    }


def quota_tree(answer: Answer) -> dict[str, Any]:
    return {"cohorts": answer["nodes"], "root": answer["root"], "overpromised": answer["overpromised"]}
