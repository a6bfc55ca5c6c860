"""Nodes as answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from runrig import wire
from runrig.domain.quantities import format_quantity
from runrig.domain.shown.nodes import Node

_REFERENCE_KINDS = ("gpu", "cpu", "memory", "storage")


_BY_POOL = {"platform_allocatable_fields", "pool_platform_labels", "config_fields"}
"""Fields that say the same of each pool that may use a node."""
_NODES_AT_ONCE = 50
"""With a thousand pools about 10 MB."""


def resources(nodes: Sequence[Node], *, more: bool) -> Iterator[bytes]:
    """`wire.ResourcesAnswer` as JSON, in parts.

    Each node repeats its pools three times, which may be most of the answer by far: nodes that have them in common share the text.
    """
    texts: dict[tuple[Any, ...], tuple[str, str]] = {}
    for start in range(0, len(nodes), _NODES_AT_ONCE):
        part = (_resource(node, texts) for node in nodes[start : start + _NODES_AT_ONCE])
        yield (b"," if start else b'{"resources":[') + b",".join(part)
    yield (b"" if nodes else b'{"resources":[') + b'],"more_entries":' + (b"true}" if more else b"false}")


def _resource(node: Node, texts: dict[tuple[Any, ...], tuple[str, str]]) -> bytes:
    key = (node.flavor, node.pool_names, *sorted(node.resources.items()))
    if key not in texts:
        whole = resource(node)
        texts[key] = json.dumps(whole.exposed_fields["pool/platform"]), whole.model_dump_json(include=_BY_POOL)[1:-1]
    platforms, by_pool = texts[key]
    alone = resource(replace(node, pool_names=()))
    own = alone.model_dump_json(exclude={"exposed_fields", *_BY_POOL})[1:-1]
    exposed = json.dumps({name: value for name, value in alone.exposed_fields.items() if name != "pool/platform"})[:-1]
    return f'{{{own},"exposed_fields":{exposed},"pool/platform":{platforms}}},{by_pool}}}'.encode()


def resource(node: Node) -> wire.ResourceAnswer:
    platform = node.flavor
    has = _texts(node.resources)
    held = {name: amount - node.free.get(name, 0) for name, amount in node.resources.items()}
    allowed = {
        "host_network": "hostNetwork" in node.allow,
        "privileged": "privileged" in node.allow,
        "default_mounts": [],
        "allowed_mounts": [],
    }
    return wire.ResourceAnswer(
        hostname=node.name,
        backend=node.backend,
        exposed_fields={
            "node": node.name,
            **{kind: has[kind] for kind in _REFERENCE_KINDS},
            "pool/platform": [f"{pool}/{platform}" for pool in node.pool_names],
        },
        resource_type=("UNUSED", "RESERVED", "SHARED")[min(node.pools, 2)],
        usage_fields=_texts(held),
        non_workflow_usage_fields=dict.fromkeys(_REFERENCE_KINDS, "0"),
        allocatable_fields=has,
        platform_allocatable_fields={pool: {platform: has} for pool in node.pool_names},
        pool_platform_labels={pool: [platform] for pool in node.pool_names},
        label_fields=dict(node.labels),
        taints=[asdict(taint) for taint in node.taints],
        conditions=list(node.conditions),
        config_fields={pool: {platform: allowed} for pool in node.pool_names},
        ready=node.ready,
        flavor=platform,
        free=dict(node.free),
        gpus=[
            None if holder is None else wire.GpuAnswer(index=index, workflow=holder.workflow, task=holder.task)
            for index, holder in enumerate(node.gpus)
        ],
    )


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """*amounts* in the reference's units: cores, at most Gi, whole GPUs; always its four kinds, others if there are any."""
    kinds = (*_REFERENCE_KINDS, *sorted(set(amounts) - set(_REFERENCE_KINDS)))
    return {kind: format_quantity(kind, amounts.get(kind, 0), largest_unit="Gi") for kind in kinds}
