"""Pools, cohorts and differences as answers."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from pydantic_core import to_json

from runrig import wire
from runrig.domain.access import Grant
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Cohort, Pool, PoolState, Quotas, exit_actions
from runrig.domain.quantities import GPU, FlavorResource
from runrig.service.commands.declarations import Difference
from runrig.service.queries.resource_queries import (
    CohortView,
    GpuTotals,
    NodeBalance,
    NodeSet,
    PoolBalance,
    PoolView,
    TreeView,
)

NO_LIMIT = -1
"""Stands for no limit, only in the reference's fields."""

Plain = dict[str, Any]
"""An answer, or a part of one, as JSON has it: with a thousand pools the models of it would take most of the time."""

_NUMBERS = tuple(field.name for field in fields(PoolBalance))
_numbers_of = attrgetter(*_NUMBERS)
_BALANCE = tuple(field.name for field in fields(NodeBalance))
_balance_of = attrgetter(*_BALANCE)
"""An answer has all of them, by the same names."""
_SETTINGS, _POOL = (
    {name: field.default for name, field in model.model_fields.items()}
    for model in (wire.PoolSettingsAnswer, wire.PoolAnswer)
)
"""All fields in their order, with what they are where nothing is said."""

Platforms = dict[str, Plain]
"""Platforms by name of their flavor; a cache for answers with many pools, which repeat the same ones."""


def settings(view: PoolView, backend: str) -> wire.PoolSettingsAnswer:
    return wire.PoolSettingsAnswer.model_validate(_SETTINGS | _settings(view, backend, {}))


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
            sum(view.balance.used for view in views),
            sum(view.balance.available for view in views),
            sum(view.balance.unallocated for view in views),
            # A parent's total includes its subpools'.
            sum(view.balance.total for view in views if view.pool.parent is None),
            GpuTotals(sum(each.totals.capacity for each in node_sets), sum(each.totals.usage for each in node_sets)),
        ),
    }
    return to_json(answer)


def _pool(view: PoolView, backend: str, platforms: Platforms) -> Plain:
    balance = view.balance
    return {
        **_POOL,
        **_settings(view, backend, platforms),
        **dict(zip(_NUMBERS, _numbers_of(balance), strict=True)),
        "shared": dict(balance.shared),
        "resource_usage": _usage(balance.used, balance.available, balance.unallocated, balance.total, view.totals),
        "subpools": view.subpools,
        "workflows": view.workflows,
        "balances": {} if view.row is None else _balances(view.row.balances),
    }


def _usage(used: int, free: int, limit: int, total: int, nodes: GpuTotals) -> Plain:
    return {
        "quota_used": str(used),
        "quota_free": str(free),
        "quota_limit": str(limit),
        "total_usage": str(total),
        "total_capacity": str(nodes.capacity),
        "total_free": str(nodes.free),
    }


_STATUS: Mapping[PoolState, str] = {
    PoolState.ACTIVE: "ONLINE",
    PoolState.DELETING: "MAINTENANCE",  # its work runs, and nobody may submit
    PoolState.ARCHIVED: "OFFLINE",
}


def _settings(view: PoolView, backend: str, platforms: Platforms) -> Plain:
    own, inherited = view.pool, view.settings
    for flavor in view.flavors:
        if flavor.name not in platforms:
            platforms[flavor.name] = _platform(flavor)
    return {
        "name": own.name,
        "description": own.description,
        "status": _STATUS[own.state],
        "backend": backend,
        "default_platform": inherited.default_platform,
        "default_exit_actions": exit_actions(inherited.default_exit_actions),
        "resources": {"gpu": _countable(own)},
        "topology_keys": [{"key": each.key, "label": each.label} for each in inherited.topology_keys],
        "platforms": {flavor.name: platforms[flavor.name] for flavor in view.flavors},
        "cohort": own.cohort,
        "quotas": _quotas(own.quotas),
        "queueing": inherited.queueing.value,
        "weight": own.weight,
        "grace_s": inherited.grace_s,
        "flavors": inherited.flavors,
        "state": own.state.value,
        "parent": own.parent,
        "subpool_name": own.subpool_name,
        "subpool_state": None if own.parent is None else own.state.value,
    }


def _countable(pool: Pool) -> Plain:
    gpus = [quota for key, quota in pool.quotas.items() if key.resource == GPU]
    guarantee = sum(quota.nominal for quota in gpus)
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


def quotas(values: Quotas) -> dict[str, dict[str, wire.QuotaAnswer]]:
    """Flavor → resource → quota, sorted."""
    return {
        flavor: {resource: wire.QuotaAnswer.model_validate(quota) for resource, quota in by_resource.items()}
        for flavor, by_resource in _quotas(values).items()
    }


def _quotas(values: Quotas) -> dict[str, dict[str, Plain]]:
    by_flavor: dict[str, dict[str, Plain]] = {}
    for key, quota in sorted(values.items()):
        by_flavor.setdefault(key.flavor, {})[key.resource] = {
            "nominal": quota.nominal,
            "borrowing_limit": quota.borrowing_limit,
            "lending_limit": quota.lending_limit,
        }
    return by_flavor


def balances(values: Mapping[FlavorResource, NodeBalance]) -> dict[str, wire.BalanceAnswer]:
    """``flavor/resource`` → balance, sorted."""
    return {key: wire.BalanceAnswer.model_validate(balance) for key, balance in _balances(values).items()}


def _balances(values: Mapping[FlavorResource, NodeBalance]) -> dict[str, Plain]:
    return {str(key): dict(zip(_BALANCE, _balance_of(balance), strict=True)) for key, balance in sorted(values.items())}


# ---------------------------------------------------------------- cohorts and differences


def quota_tree(view: TreeView) -> wire.CohortsAnswer:
    return wire.CohortsAnswer(
        cohorts=[cohort(node) for node in view.nodes],
        root=cohort(view.root),
        overpromised={str(key): amount for key, amount in sorted(view.overpromised.items())},
    )


def cohort(view: CohortView) -> wire.CohortAnswer:
    node = view.cohort or view.pool
    return wire.CohortAnswer(
        name=view.row.name,
        kind=view.row.kind,
        parent=view.row.parent or None,
        parent_kind=view.parent_kind,
        children=list(view.children),
        declared=view.row.declared,
        active=view.row.active,
        weight=1 if node is None else node.weight,
        quotas={} if node is None else quotas(node.quotas),
        balances=balances(view.row.balances),
    )


def change(difference: Difference) -> wire.ChangeAnswer:
    return wire.ChangeAnswer.model_validate(
        {
            "action": difference.action,
            "kind": difference.kind,
            "name": difference.name,
            "before": _declared(difference.before),
            "after": _declared(difference.after),
        }
    )


def _declared(record: Pool | Cohort | Flavor | Grant | None) -> dict[str, Any] | None:
    """The fields that a cluster file can set."""
    match record:
        case None:
            return None
        case Flavor():
            taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in record.taints]
            return {"node_labels": dict(record.node_labels), "taints": taints, "allow": list(record.allow)}
        case Grant():
            return {"role": str(record)}
        case Cohort():
            return {"parent": record.parent, "weight": record.weight, "quotas": _quotas(record.quotas)}
    return declared(record)


def declared(pool: Pool) -> Plain:
    """The fields that a cluster file can set."""
    return {
        "cohort": pool.cohort,
        "parent": pool.parent,
        "state": pool.state.value,
        "weight": pool.weight,
        "queueing": pool.queueing.value,
        "grace_s": pool.grace_s,
        "flavors": list(pool.flavors),
        "topology_keys": [{"key": each.key, "label": each.label} for each in pool.topology_keys],
        "default_platform": pool.default_platform,
        "default_exit_actions": exit_actions(pool.default_exit_actions),
        "description": pool.description,
        "quotas": _quotas(pool.quotas),
    }
