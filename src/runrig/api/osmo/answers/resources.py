"""Nodes as answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runrig import wire
from runrig.api.shown.nodes import conditions
from runrig.domain.quantities import format_quantity
from runrig.service.queries.nodes import NodeView

_REFERENCE_KINDS = ("gpu", "cpu", "memory", "storage")


_BY_POOL = {"platform_allocatable_fields", "pool_platform_labels", "config_fields"}
"""Fields that say the same of each pool that may use a node."""
_NODES_AT_ONCE = 50
"""With a thousand pools about 10 MB."""


def resources(views: Sequence[NodeView], backend: str, *, more: bool) -> Iterator[bytes]:
    """`wire.ResourcesAnswer` as JSON, in parts.

    Each node repeats its pools three times, which may be most of the answer by far: nodes that have them in common share the text.
    """
    texts: dict[tuple[Any, ...], tuple[str, str]] = {}
    for start in range(0, len(views), _NODES_AT_ONCE):
        nodes = (_resource(view, backend, texts) for view in views[start : start + _NODES_AT_ONCE])
        yield (b"," if start else b'{"resources":[') + b",".join(nodes)
    yield (b"" if views else b'{"resources":[') + b'],"more_entries":' + (b"true}" if more else b"false}")


def _resource(view: NodeView, backend: str, texts: dict[tuple[Any, ...], tuple[str, str]]) -> bytes:
    key = (view.flavor.name, view.pools, *sorted(view.node.resources.items()))
    if key not in texts:
        whole = resource(view, backend)
        texts[key] = json.dumps(whole.exposed_fields["pool/platform"]), whole.model_dump_json(include=_BY_POOL)[1:-1]
    platforms, by_pool = texts[key]
    alone = resource(replace(view, pools=()), backend)
    own = alone.model_dump_json(exclude={"exposed_fields", *_BY_POOL})[1:-1]
    exposed = json.dumps({name: value for name, value in alone.exposed_fields.items() if name != "pool/platform"})[:-1]
    return f'{{{own},"exposed_fields":{exposed},"pool/platform":{platforms}}},{by_pool}}}'.encode()


def resource(view: NodeView, backend: str) -> wire.ResourceAnswer:
    node, platform = view.node, view.flavor.name
    has = _texts(node.resources)
    held = {name: amount - view.free.get(name, 0) for name, amount in node.resources.items()}
    allowed = {
        "host_network": "hostNetwork" in view.flavor.allow,
        "privileged": "privileged" in view.flavor.allow,
        "default_mounts": [],
        "allowed_mounts": [],
    }
    return wire.ResourceAnswer(
        hostname=node.name,
        backend=backend,
        exposed_fields={
            "node": node.name,
            **{kind: has[kind] for kind in _REFERENCE_KINDS},
            "pool/platform": [f"{pool}/{platform}" for pool in view.pools],
        },
        resource_type=("UNUSED", "RESERVED", "SHARED")[min(view.shared_by, 2)],
        usage_fields=_texts(held),
        non_workflow_usage_fields=dict.fromkeys(_REFERENCE_KINDS, "0"),
        allocatable_fields=has,
        platform_allocatable_fields={pool: {platform: has} for pool in view.pools},
        pool_platform_labels={pool: [platform] for pool in view.pools},
        label_fields=dict(node.labels),
        taints=[{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
        conditions=conditions(view),
        config_fields={pool: {platform: allowed} for pool in view.pools},
        ready=node.open,
        flavor=platform,
        free=dict(view.free),
        gpus=[
            None if holder is None else wire.GpuAnswer(index=index, workflow=holder[0] or None, task=holder[1] or None)
            for index, holder in enumerate(view.gpus)
        ],
    )


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """*amounts* in the reference's units: cores, at most Gi, whole GPUs; always its four kinds, others if there are any."""
    kinds = (*_REFERENCE_KINDS, *sorted(set(amounts) - set(_REFERENCE_KINDS)))
    return {kind: format_quantity(kind, amounts.get(kind, 0), largest_unit="Gi") for kind in kinds}
