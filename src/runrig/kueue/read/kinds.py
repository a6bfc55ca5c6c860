"""Reads the small kinds: ResourceFlavor, Topology, WorkloadPriorityClass, PriorityClass and Namespace."""

from collections.abc import Mapping
from dataclasses import dataclass

from runrig.kueue.declared import ResourceFlavor, Topology
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.selectors import read_taints, read_tolerations
from runrig.kueue.read.tree import INT32

MOST_OF_FLAVOR = 8
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label that Kubernetes adds to every namespace, with its name as the value."""

_FLAVOR = ("nodeLabels", "nodeTaints", "tolerations", "topologyName")
_CLASS = ("apiVersion", "kind", "metadata", "value", "description")


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority class. *everywhere*: it applies to pods that do not name a class (globalDefault)."""

    name: str
    value: int
    everywhere: bool = False


def read_flavor(manifest: Manifest) -> ResourceFlavor:
    spec = manifest.spec.only(_FLAVOR)
    for name in _FLAVOR[:3]:
        found = spec.get(name)
        size = len(found.node.value) if found and isinstance(found.node.value, tuple | Mapping) else 0
        if found is not None and size > MOST_OF_FLAVOR:
            found.warn(f"{size} entries: Kueue accepts up to {MOST_OF_FLAVOR}")
    topology = spec.get("topologyName")
    labels = spec.strings("nodeLabels")
    if topology is not None and not labels:
        topology.warn("Kueue rejects a flavor that has a topology but no node label")
    return ResourceFlavor(
        manifest.name,
        labels,
        read_taints(spec.items("nodeTaints")),
        read_tolerations(spec.items("tolerations")),
        topology.text() or None if topology else None,
    )


def read_topology(manifest: Manifest) -> Topology:
    spec = manifest.spec.only(("levels",))
    levels: list[str] = []
    for level in spec.objects("levels", ("nodeLabel",)):
        name = level.need("nodeLabel")
        if name in levels:
            level.at.warn(f"duplicate level {name!r}: this one is ignored")
        else:
            levels.append(name)
    if not levels:
        manifest.body.at.warn("a topology needs at least one level: no pods can be placed")
    return Topology(manifest.name, tuple(levels))


def read_class(manifest: Manifest) -> PriorityClass:
    """Reads a WorkloadPriorityClass or a PriorityClass."""
    body = manifest.body
    body.only((*_CLASS, "globalDefault", "preemptionPolicy") if manifest.kind == "PriorityClass" else _CLASS)
    if not body.has("value"):
        body.at.warn("value is missing: treated as 0")
    return PriorityClass(manifest.name, body.whole("value", 0, -INT32 - 1), body.flag("globalDefault", False))
