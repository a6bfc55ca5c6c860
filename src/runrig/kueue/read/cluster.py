"""Reads nodes, and the pods on them that do not belong to any workload but use capacity."""

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
    """A pod on *node* that does not belong to any workload. *requests*: include the pod itself, as one of ``pods``."""

    node: str
    requests: Amounts
    at: Value


def read_node(manifest: Manifest) -> Node:
    spec, status = manifest.spec.only(_NODE), manifest.status.only(_STATUS)
    amounts = status.object("allocatable" if status.has("allocatable") else "capacity")
    if not amounts.entries:
        manifest.body.at.warn("status.allocatable is missing: no pod fits on this node")
    ready = manifest.condition("Ready")
    return Node(
        manifest.name,
        amounts.amounts(),
        labels=manifest.labels,
        taints=read_taints(spec.items("taints")),
        ready=not spec.flag("unschedulable", False) and (ready is None or ready.status),
    )


def read_bound_pod(manifest: Manifest) -> BoundPod | None:
    """Reads a pod outside of workloads; None if it uses no node: it has ended, or is not bound (with a warning).

    Requests are not validated again, because the pod has already started.
    """
    at = manifest.spec.get("nodeName")
    if manifest.status.text("phase") in ENDED:
        return None
    if at is None:
        manifest.body.at.warn("ignored: this pod is not on a node")
        return None
    requests, _ = pod_requests(manifest.spec, Surroundings(), manifest.namespace)
    return BoundPod(at.text(), {**requests, PODS: 1}, at)


def with_room_taken(nodes: Iterable[Node], pods: Iterable[BoundPod]) -> tuple[Node, ...]:
    """*nodes* with the capacity that *pods* leave, at least 0 of each resource."""
    left = {node.name: dict(node.resources) for node in nodes}
    for pod in pods:
        room = left.get(pod.node)
        if room is None:
            pod.at.warn(f"node {pod.node!r} is not in this file: this pod is ignored")
            continue
        for resource, amount in pod.requests.items():
            if resource in room:
                room[resource] = max(0, room[resource] - amount)
    return tuple(replace(node, resources=left[node.name]) for node in nodes)
