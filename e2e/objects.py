"""Kubernetes objects that only the harness makes: nodes, namespaces."""

from collections.abc import Mapping

from e2e.api import Object
from runrig.domain.nodes import Node
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE

_NAMES = {GPU: "nvidia.com/gpu", STORAGE: "ephemeral-storage"}
_UNCOUNTED = {CPU: "64", MEMORY: str(2**39), "ephemeral-storage": str(2**40), "pods": "110"}
"""What a node has of things that a cluster file need not count."""


def node_object(node: Node, kubelet_port: int, names: Mapping[str, str] | None = None) -> Object:
    """As a kubelet on *kubelet_port* would report it.

    *names*: our name of a resource → its name there, where it is not the usual one.
    """
    known = _NAMES | dict(names or {})
    amounts = _UNCOUNTED | {known.get(key, key): _amount(key, value) for key, value in node.resources.items()}
    spec: Object = {"unschedulable": True} if not node.ready else {}
    if node.taints:
        spec["taints"] = [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.taints]
    labels = {"kubernetes.io/hostname": node.name, **node.labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        },
    }


def namespace_object(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _amount(resource: str, amount: int) -> str:
    """CPU is counted in thousandths, memory and storage in bytes."""
    return f"{amount}m" if resource == CPU else str(amount)
