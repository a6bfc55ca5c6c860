"""The small kinds: ResourceFlavor, Topology, the two kinds of priority class, Namespace."""

from collections.abc import Mapping
from dataclasses import dataclass

from runrig.kueue.declared import ResourceFlavor, Topology
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.selectors import read_taints, read_tolerations
from runrig.kueue.read.tree import INT32

MOST_OF_FLAVOR = 8
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Kubernetes gives it to every namespace."""

_FLAVOR = ("nodeLabels", "nodeTaints", "tolerations", "topologyName")
_CLASS = ("apiVersion", "kind", "metadata", "value", "description")


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """*everywhere*: for pods that name no class (globalDefault)."""

    name: str
    value: int
    everywhere: bool = False


def read_flavor(manifest: Manifest) -> ResourceFlavor:
    spec = manifest.spec
    spec.only(_FLAVOR)
    for name in _FLAVOR[:3]:
        found = spec.get(name)
        size = len(found.node.value) if found and isinstance(found.node.value, tuple | Mapping) else 0
        if found is not None and size > MOST_OF_FLAVOR:
            found.warn(f"{size} of them: at most {MOST_OF_FLAVOR} are accepted there")
    topology = spec.get("topologyName")
    labels = spec.strings("nodeLabels")
    if topology is not None and not labels:
        topology.warn("a flavor with a topology needs at least one node label: refused there")
    return ResourceFlavor(
        manifest.name,
        labels,
        read_taints(spec.items("nodeTaints")),
        read_tolerations(spec.items("tolerations")),
        topology.text() or None if topology else None,
    )


def read_topology(manifest: Manifest) -> Topology:
    spec = manifest.spec
    spec.only(("levels",))
    levels: list[str] = []
    for level in spec.objects("levels"):
        level.only(("nodeLabel",))
        name = level.need("nodeLabel")
        if name in levels:
            level.at.warn(f"the level {name!r} is here twice: this one is not read")
        else:
            levels.append(name)
    if not levels:
        manifest.body.at.warn("a topology has at least one level: nothing can be placed by this one")
    return Topology(manifest.name, tuple(levels))


def read_class(manifest: Manifest) -> PriorityClass:
    """A WorkloadPriorityClass or a PriorityClass."""
    body = manifest.body
    body.only((*_CLASS, "globalDefault", "preemptionPolicy") if manifest.kind == "PriorityClass" else _CLASS)
    value = body.get("value")
    if value is None:
        body.at.warn("value is missing: counts as 0")
    return PriorityClass(manifest.name, value.whole(-INT32 - 1) if value else 0, body.flag("globalDefault", False))


def read_namespace(manifest: Manifest) -> dict[str, str]:
    """Its labels."""
    return {**manifest.labels, NAMESPACE_LABEL: manifest.name}
