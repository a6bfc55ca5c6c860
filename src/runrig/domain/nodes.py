"""Nodes, and the flavors that sort them into kinds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

DEFAULT_FLAVOR = "default"
NO_FLAVOR = ""
"""The flavor of a node that matches none: it is listed, takes no pods and counts as nobody's capacity."""

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REPELLING_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""The effects of taints that keep pods away which do not tolerate them; PREFER_NO_SCHEDULE is only a wish."""


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node (H100, B200) with a quota of its own: the nodes that carry all of *node_labels*.

    *allow*: what tasks on it may ask beyond the ordinary (``privileged``, ``hostNetwork``, ``volumeMounts``).
    *position*: its place in the order of the cluster, which is the order of preference.
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
    """*resources*: amounts per resource; *flavor*: the one that it matches, or NO_FLAVOR.

    *ready* False: takes no new pods, keeps its own.
    """

    name: str
    resources: Mapping[str, int]
    flavor: str = DEFAULT_FLAVOR
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True


def flavor_of(node: Node, flavors: Iterable[Flavor]) -> str:
    """The name of the first of *flavors* that *node* matches, NO_FLAVOR if it matches none."""
    return next((flavor.name for flavor in flavors if flavor.matches(node)), NO_FLAVOR)
