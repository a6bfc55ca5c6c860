"""Nodes."""

from runrig.domain.nodes import NO_FLAVOR
from runrig.service.queries.nodes import NodeView

_CORDONED = "node.kubernetes.io/unschedulable"
_DOWN = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
"""Taints by which Kubernetes itself says why a node takes no new pods."""


def conditions(view: NodeView) -> list[str]:
    """The conditions of a node; the last one is the most telling."""
    node = view.node
    if node.open:
        if node.flavor == NO_FLAVOR:
            return ["Ready", "NoFlavor"]
        return ["Ready", "Tainted"] if view.tainted else ["Ready"]
    if node.cordoned:
        return ["NotReady", "Cordoned"]
    taints = {taint.key for taint in node.taints}
    return ["NotReady", "Cordoned"] if _CORDONED in taints and not _DOWN & taints else ["NotReady"]
