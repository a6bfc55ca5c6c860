"""Nodes, and the flavors that group them by kind."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runrig.domain.value import Shown, shown_as

DEFAULT_FLAVOR = "default"
NO_FLAVOR = ""
"""The flavor of a node that matches no flavor: the node is listed, but takes no pods and adds no capacity."""

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REPELLING_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""The taint effects that keep away pods without a toleration; PREFER_NO_SCHEDULE is only a preference."""


@dataclass(frozen=True, slots=True)
class Taint(Shown):
    """*effect*: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Flavor(Shown):
    """A kind of node.  *node_labels*: the labels of its nodes.  *taints*: its tasks tolerate them.  *allow*: which of privileged,
    hostNetwork and volumeMounts its tasks may use."""

    UNTOLD = ("position",)

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allow: tuple[str, ...] = ()
    position: int = 0
    """Its index in the cluster's list of flavors, the first being preferred."""

    def matches(self, node: "Node") -> bool:
        return all(node.labels.get(key) == value for key, value in self.node_labels.items())


shown_as(Flavor("h100", {"gpu": "h100"}, (shown_as(Taint("gpu", "h100")),), ("hostNetwork",)))


@dataclass(frozen=True, slots=True)
class Node:
    """*resources*: resource → amount.  *flavor*: the flavor that it matches, or NO_FLAVOR.

    *ready*: as the cluster reports it.  *cordoned*: a user has closed it in runrig, even if the cluster reports it as ready (rule N1).
    Unless it is *open*, it accepts no new pods and keeps its pods.
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
    """The name of the first of *flavors* that *node* matches, NO_FLAVOR if it matches none."""
    return next((flavor.name for flavor in flavors if flavor.matches(node)), NO_FLAVOR)
