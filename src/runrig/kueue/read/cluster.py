"""Nodes, and the pods of others on them, which take room."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from runrig.domain.nodes import Node
from runrig.domain.quantities import PODS
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.pods import pod_requests
from runrig.kueue.read.selectors import read_taints
from runrig.kueue.read.surroundings import Amounts, Surroundings
from runrig.kueue.read.tree import Value

_NODE = ("taints", "unschedulable", "podCIDR", "podCIDRs", "providerID", "configSource", "externalID")
_STATUS = (
    "allocatable", "capacity", "conditions", "addresses", "images", "nodeInfo", "daemonEndpoints", "volumesInUse", "volumesAttached",
    "phase", "config", "runtimeHandlers", "features",
)  # fmt: skip
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on *node* that is no part of a gang.  *requests*: with itself, as one of ``pods``."""

    node: str
    requests: Amounts
    at: Value


def read_node(manifest: Manifest) -> Node:
    spec, status = manifest.spec, manifest.status
    spec.only(_NODE)
    status.only(_STATUS)
    amounts = status.object("allocatable" if status.has("allocatable") else "capacity")
    if not amounts.entries:
        manifest.body.at.warn("status.allocatable is missing: it has room for nothing")
    ready = manifest.condition("Ready")
    return Node(
        manifest.name,
        {resource: at.amount(resource) for resource, at in amounts.pairs()},
        labels=manifest.labels,
        taints=read_taints(spec.items("taints")),
        ready=not spec.flag("unschedulable", False) and (ready is None or ready.status),
    )


def read_bound_pod(manifest: Manifest) -> BoundPod | None:
    """None: it takes no room, as it has ended or is on no node (a warning).  What it requests is said already: it has started."""
    at = manifest.spec.get("nodeName")
    if manifest.status.text("phase") in ENDED:
        return None
    if at is None:
        manifest.body.at.warn("not read: it is on no node, and takes no room")
        return None
    requests, _ = pod_requests(manifest.spec, Surroundings(), manifest.namespace)
    return BoundPod(at.text(), {**requests, PODS: 1}, at)


def with_room_taken(nodes: Iterable[Node], pods: Iterable[BoundPod]) -> tuple[Node, ...]:
    """*nodes* with what is left beside *pods*, at least 0 of each."""
    left = {node.name: dict(node.resources) for node in nodes}
    for pod in pods:
        room = left.get(pod.node)
        if room is None:
            pod.at.warn(f"there is no node {pod.node!r} in this file: this pod takes no room")
            continue
        for resource, amount in pod.requests.items():
            if resource in room:
                room[resource] = max(0, room[resource] - amount)
    return tuple(replace(node, resources=left[node.name]) for node in nodes)
