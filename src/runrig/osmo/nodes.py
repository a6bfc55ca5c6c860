"""Nodes."""

from collections.abc import Mapping, Sequence

from runrig.domain.quantities import format_quantity
from runrig.osmo.shape import Answer, Shape

_KINDS = ("gpu", "cpu", "memory", "storage")
"""The osmo client always requests these."""


def resource(node: Answer, pools: Sequence[str], allow: Sequence[str]) -> Shape:
    """*pools*: names of pools that may use it, as far as the user may see them; *allow*: the rights that its flavor gives tasks."""
    flavor, has = node["flavor"], _texts(node["resources"])
    held = {name: amount - node["free"].get(name, 0) for name, amount in node["resources"].items()}
    rights = {
        "host_network": "hostNetwork" in allow,
        "privileged": "privileged" in allow,
        "default_mounts": [],
        "allowed_mounts": [],
    }
    return {
        "hostname": node["name"],
        "backend": node["backend"],
        "exposed_fields": {
            "node": node["name"],
            **{kind: has[kind] for kind in _KINDS},
            "pool/platform": [f"{pool}/{flavor}" for pool in pools],
        },
        "resource_type": ("UNUSED", "RESERVED", "SHARED")[min(node["pools"], 2)],
        "usage_fields": _texts(held),
        "non_workflow_usage_fields": dict.fromkeys(_KINDS, "0"),
        "allocatable_fields": has,
        "platform_allocatable_fields": {pool: {flavor: has} for pool in pools},
        "platform_workflow_allocatable_fields": None,
        "platform_available_fields": None,
        "pool_platform_labels": {pool: [flavor] for pool in pools},
        "label_fields": node["labels"],
        "taints": node["taints"],
        "conditions": node["conditions"],
        "config_fields": {pool: {flavor: rights} for pool in pools},
        **{name: node[name] for name in ("ready", "flavor", "free")},
        "gpus": [holder and {"index": index, **holder} for index, holder in enumerate(node["gpus"])],
    }


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """*amounts* in the osmo client's units: cores, up to Gi, whole GPUs; always its four kinds, then others."""
    kinds = (*_KINDS, *sorted(set(amounts) - set(_KINDS)))
    return {kind: format_quantity(kind, amounts.get(kind, 0), largest_unit="Gi") for kind in kinds}
