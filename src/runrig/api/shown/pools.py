"""Quotas and balances."""

from collections.abc import Mapping
from typing import Any

from runrig import wire
from runrig.domain.pools import Pool, Quotas, exit_actions
from runrig.domain.quantities import FlavorResource
from runrig.service.queries.resource_queries import NodeBalance

Plain = dict[str, Any]
"""An answer, or a part of one, as JSON has it: with a thousand pools the models of it would take most of the time."""


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
        "default_run_time_s": pool.default_run_time_s,
        "max_run_time_s": pool.max_run_time_s,
        "quotas": plain_quotas(pool.quotas),
    }


def quotas(values: Quotas) -> dict[str, dict[str, wire.QuotaAnswer]]:
    """Flavor → resource → quota, sorted."""
    return {
        flavor: {resource: wire.QuotaAnswer.model_validate(quota) for resource, quota in by_resource.items()}
        for flavor, by_resource in plain_quotas(values).items()
    }


def plain_quotas(values: Quotas) -> dict[str, dict[str, Plain]]:
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
    return {key: wire.BalanceAnswer.model_validate(balance) for key, balance in plain_balances(values).items()}


def plain_balances(values: Mapping[FlavorResource, NodeBalance]) -> dict[str, Plain]:
    return {str(key): balance._asdict() for key, balance in sorted(values.items())}
