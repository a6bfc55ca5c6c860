"""Pools as answers."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any

from pydantic_core import to_json

from runrig import wire
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Pool, PoolState, exit_actions
from runrig.domain.quantities import GPU
from runrig.domain.shown.pools import PoolGpus, quotas_of
from runrig.domain.spans import format_duration
from runrig.service.queries.resource_queries import NodeSet, PoolView

Plain = dict[str, Any]
"""An answer, or a part of one: with a thousand pools the models of it would take most of the time."""

NO_LIMIT = -1
"""Stands for no limit, only in the reference's fields."""

_SETTINGS, _POOL = (
    {name: field.default for name, field in model.model_fields.items()}
    for model in (wire.PoolSettingsAnswer, wire.PoolAnswer)
)
"""All fields in their order, with what they are where nothing is said."""
_GPUS = [each.name for each in fields(PoolGpus)]

Platforms = dict[str, Plain]
"""Platforms by name of their flavor; a cache for answers with many pools, which repeat the same ones."""


def settings(view: PoolView, backend: str) -> wire.PoolSettingsAnswer:
    return wire.PoolSettingsAnswer.model_validate(
        _SETTINGS | _settings(view.pool, view.settings, view.flavors, backend, {})
    )


def settings_then(pool: Pool, inherited: Pool, flavors: Iterable[Flavor], backend: str) -> wire.PoolSettingsAnswer:
    """The settings of a pool of an earlier revision.  *inherited*: its parent of then, if it is a subpool; *flavors*: those of now."""
    usable = [each for each in flavors if not inherited.flavors or each.name in inherited.flavors]
    return wire.PoolSettingsAnswer.model_validate(_SETTINGS | _settings(pool, inherited, usable, backend, {}))


def pool(view: PoolView, backend: str) -> wire.PoolAnswer:
    return wire.PoolAnswer.model_validate(_pool(view, backend, {}))


def pool_quota(node_sets: Iterable[NodeSet], backend: str) -> bytes:
    """`wire.PoolQuotaAnswer` as JSON.

    The sums count each node set once, and every pool (a subpool's share is not in its parent's unallocated).
    """
    node_sets = tuple(node_sets)
    platforms: Platforms = {}
    views = [view for node_set in node_sets for view in node_set.pools]
    answer = {
        "node_sets": [{"pools": [_pool(view, backend, platforms) for view in each.pools]} for each in node_sets],
        "resource_sum": _usage(
            sum(view.gpus.used for view in views),
            sum(view.gpus.available for view in views),
            sum(view.gpus.unallocated for view in views),
            sum(_total(view) for view in views),
            sum(each.nodes.gpus for each in node_sets),
            sum(each.nodes.free_gpus for each in node_sets),
        ),
    }
    return to_json(answer)


def _pool(view: PoolView, backend: str, platforms: Platforms) -> Plain:
    gpus = view.gpus
    return {
        **_POOL,
        **_settings(view.pool, view.settings, view.flavors, backend, platforms),
        **{name: getattr(gpus, name) for name in _GPUS},
        "shared": dict(gpus.shared),
        "resource_usage": _usage(
            gpus.used, gpus.available, gpus.unallocated, _total(view), view.nodes.gpus, view.nodes.free_gpus
        ),
        "subpools": view.subpools,
        "workflows": view.workflows,
        "balances": view.balances,
    }


def _total(view: PoolView) -> int:
    """The pool's own work of all priorities: its subpools have rows of their own, and the client adds all rows up."""
    return view.gpus.used + view.gpus.low


def _usage(used: int, free: int, limit: int, total: int, capacity: int, nodes_free: int) -> Plain:
    return {
        "quota_used": str(used),
        "quota_free": str(free),
        "quota_limit": str(limit),
        "total_usage": str(total),
        "total_capacity": str(capacity),
        "total_free": str(nodes_free),
    }


_STATUS: Mapping[PoolState, str] = {
    PoolState.ACTIVE: "ONLINE",
    PoolState.DELETING: "MAINTENANCE",  # its work runs, and nobody may submit
    PoolState.ARCHIVED: "OFFLINE",
}


def _settings(own: Pool, inherited: Pool, flavors: Collection[Flavor], backend: str, platforms: Platforms) -> Plain:
    state = own.state.value
    closed = inherited if own.closed_by is None else own
    for flavor in flavors:
        if flavor.name not in platforms:
            platforms[flavor.name] = _platform(flavor)
    return {
        "name": own.name,
        "description": own.description,
        "status": _STATUS[own.state] if closed.closed_by is None or state != "ACTIVE" else "MAINTENANCE",
        "backend": backend,
        "default_platform": inherited.default_platform,
        "default_exit_actions": exit_actions(inherited.default_exit_actions),
        "default_exec_timeout": _duration(inherited.default_run_time_s),
        "max_exec_timeout": _duration(inherited.max_run_time_s),
        "resources": {"gpu": _countable(own)},
        "topology_keys": inherited.topology_keys,
        "platforms": {flavor.name: platforms[flavor.name] for flavor in flavors},
        "cohort": own.cohort,
        "quotas": quotas_of(own.quotas),
        "queueing": inherited.queueing,
        "weight": own.weight,
        "grace_s": inherited.grace_s,
        "default_run_time_s": inherited.default_run_time_s,
        "max_run_time_s": inherited.max_run_time_s,
        "closed_by": closed.closed_by,
        "closed_reason": closed.closed_reason,
        "flavors": inherited.flavors,
        "state": state,
        "parent": own.parent,
        "subpool_name": own.subpool_name,
        "subpool_state": None if own.parent is None else state,
    }


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def _countable(pool: Pool) -> Plain:
    gpus = [quota for key, quota in pool.quotas.items() if key.resource == GPU]
    guarantee = sum([quota.nominal for quota in gpus])
    limits = [quota.borrowing_limit for quota in gpus if quota.borrowing_limit is not None]
    maximum = guarantee + sum(limits) if gpus and len(limits) == len(gpus) else NO_LIMIT
    return {"guarantee": guarantee, "maximum": maximum, "weight": pool.weight}


def _platform(flavor: Flavor) -> Plain:
    answer = wire.PlatformAnswer(
        host_network_allowed="hostNetwork" in flavor.allow,
        privileged_allowed="privileged" in flavor.allow,
        tolerations=[{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in flavor.taints],
        labels=dict(flavor.node_labels),
    )
    return answer.model_dump()
