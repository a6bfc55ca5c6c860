"""Nodes, and the flavors that group them by kind."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

DEFAULT_FLAVOR = "default"
NO_FLAVOR = ""
"""The flavor of a node that matches no flavor: the node is listed, but takes no pods and adds no capacity."""

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REPELLING_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""The taint effects that keep away pods without a toleration; PREFER_NO_SCHEDULE is only a preference."""


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node (H100, B200) with a quota of its own: the nodes that carry all of *node_labels*.

    *allow*: special rights that tasks on it may ask for (``privileged``, ``hostNetwork``, ``volumeMounts``).
    *position*: its index in the cluster's list of flavors, the first being preferred.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allow: tuple[str, ...] = ()
    position: int = 0

    def matches(self, node: "Node") -> bool:
        return all(node.labels.get(key) == value for key, value in self.node_labels.items())


@dataclass(frozen=True, slots=True)
class Node:
    """*resources*: resource → amount.  *flavor*: the flavor that it matches, or NO_FLAVOR.

    *ready*: what the cluster says of it.  *cordoned*: somebody has closed it here, whatever the cluster says (law N1).  Where it is not
    *open*, it takes no new pods and keeps those that it has.
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
