"""Nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from runrig.cli.printed.pools import allowed

Answer = Mapping[str, Any]

_KINDS = ("gpu", "cpu", "memory", "storage")
"""The osmo client always requests these."""


def resource(node: Answer, pools: Sequence[Answer], flavors: Sequence[Answer]) -> dict[str, Any]:
    """*pools*: those that can use it. *flavors*: all."""
    flavor = node["flavor"]
    users = [each["name"] for each in pools if flavor and flavor in (each["flavors"] or [flavor])]
    has = _texts(node["resources"])
    held = {name: amount - node["free"].get(name, 0) for name, amount in node["resources"].items()}
    settings = next((_settings(each) for each in flavors if each["name"] == flavor), {})
    return {
        "hostname": node["name"],
        "backend": node["backend"],
        "exposed_fields": {
            "node": node["name"],
            **{kind: has[kind] for kind in _KINDS},
            "pool/platform": [f"{pool}/{flavor}" for pool in users],
        },
        "resource_type": ("UNUSED", "RESERVED", "SHARED")[min(node["pools"], 2)],
        "usage_fields": _texts(held),
        "non_workflow_usage_fields": dict.fromkeys(_KINDS, "0"),
        "allocatable_fields": has,
        "platform_allocatable_fields": {pool: {flavor: has} for pool in users},
        "platform_workflow_allocatable_fields": None,
        "platform_available_fields": None,
        "pool_platform_labels": {pool: [flavor] for pool in users},
        "label_fields": node["labels"],
        **{name: node[name] for name in ("taints", "conditions", "ready", "flavor", "free")},
        "config_fields": {pool: {flavor: settings} for pool in users},
        "gpus": [holder and {"index": index, **holder} for index, holder in enumerate(node["gpus"])],
    }


def _settings(flavor: Answer) -> dict[str, Any]:
    return {name.removesuffix("_allowed"): value for name, value in allowed(flavor).items()}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Returns *amounts* in the osmo client's units: cores, up to Gi, whole GPUs."""
    from runrig.domain.quantities import format_quantity

    kinds = (*_KINDS, *sorted(set(amounts) - set(_KINDS)))
    return {kind: format_quantity(kind, amounts.get(kind, 0), largest_unit="Gi") for kind in kinds}
