"""Nodes, and flavors, the kinds of nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runrig.domain.value import Shown, shown_as

DEFAULT_FLAVOR = "default"
NO_FLAVOR = ""
"""The flavor of a node that does not match any: it is listed, but accepts no pods and adds no capacity."""

MOST_GPUS = 1024
"""GPUs of a node that have an index. A cluster file cannot declare more; what Kubernetes reports above this has none."""

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REPELLING_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""The effects that repel pods without a toleration. PREFER_NO_SCHEDULE is only a preference."""


@dataclass(frozen=True, slots=True)
class Taint(Shown):
    """*effect*: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Flavor(Shown):
    """A kind of node. *node_labels*: the labels of its nodes.

    *taints*: its tasks tolerate them. *allow*: the options among privileged, hostNetwork and volumeMounts that its tasks may
    use.
    """

    UNTOLD = ("position",)

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allow: tuple[str, ...] = ()
    position: int = 0
    """Its index in the cluster's list of flavors; the first is preferred."""

    def matches(self, node: "Node") -> bool:
        return all(node.labels.get(key) == value for key, value in self.node_labels.items())


shown_as(Flavor("h100", {"gpu": "h100"}, (shown_as(Taint("gpu", "h100")),), ("hostNetwork",)))


@dataclass(frozen=True, slots=True)
class Node:
    """A node. *resources*: resource → amount. *flavor*: the flavor that it matches, or NO_FLAVOR.

    *ready*: as reported by the cluster. *cordoned*: by a user of runrig, even if the cluster reports it as ready (rule N1).
    Unless it is *open*, it accepts no new pods; its pods keep running.
    """

    name: str
    resources: Mapping[str, int]
    flavor: str = DEFAULT_FLAVOR
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    cordoned: bool = False

    @property
    def open(self) -> bool:
        return self.ready and not self.cordoned


def flavor_of(node: Node, flavors: Iterable[Flavor]) -> str:
    """The name of the first of *flavors* that *node* matches; NO_FLAVOR if it does not match any."""
    return next((flavor.name for flavor in flavors if flavor.matches(node)), NO_FLAVOR)
