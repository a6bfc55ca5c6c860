"""Nodes of the flavors that have a topology, as trees of domains, and what is taken of them (law T1).

A node stands in the tree of a flavor if it takes pods, carries the flavor's labels and has every level.  Nodes with equal values
down to the lowest level are one leaf; if that level is the host name, the name alone tells leaves apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from runrig.domain.kueue import Granted, Placed, ResourceFlavor, Topology, Workload
from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.domain.quantities import Requests, of_one_pod


class LeafCapacity:
    """What one leaf has and what work holds of it.  Trees of flavors that share the same nodes share it."""

    __slots__ = ("total", "used")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.total: dict[str, int] = {}
        self.used: dict[str, int] = {}
        for node in nodes:
            for resource, amount in node.resources.items():
                self.total[resource] = self.total.get(resource, 0) + amount


class NodeDomain:
    """One instance of a level.  *at*: its place among all domains of the tree.  *room*, *node*: of leaves only.

    *node* is the one whose labels and taints count, None where leaves are wider than a node.
    """

    __slots__ = ("at", "children", "node", "room", "values")

    def __init__(self, at: int, values: tuple[str, ...]) -> None:
        self.at = at
        self.values = values
        self.children: list[NodeDomain] = []
        self.room: LeafCapacity | None = None
        self.node: Node | None = None


class NodeTree:
    """The domains of one flavor by level, coarse to fine, each level sorted by values."""

    def __init__(
        self, flavor: ResourceFlavor, levels: Sequence[str], leaves: Mapping[tuple[str, ...], list[Node]]
    ) -> None:
        self.flavor = flavor
        self.levels = tuple(levels)
        self.by_level: tuple[list[NodeDomain], ...] = tuple([] for _ in levels)
        self.by_values: dict[tuple[str, ...], NodeDomain] = {}
        self.nodes = leaves
        count = 0
        for depth in range(1, len(levels) + 1):
            for values in sorted({leaf[:depth] for leaf in leaves}):
                domain = self.by_values[values] = NodeDomain(count, values)
                self.by_level[depth - 1].append(domain)
                count += 1
                if depth > 1:
                    self.by_values[values[:-1]].children.append(domain)
        self.size = count
        self.by_host = {leaf.values[-1]: leaf for leaf in self.leaves} if self.hosts else {}

    @property
    def hosts(self) -> bool:
        """Leaves are single nodes: selectors, affinity and taints are looked at node by node."""
        return self.levels[-1] == HOSTNAME

    @property
    def leaves(self) -> list[NodeDomain]:
        return self.by_level[-1]

    def leaf(self, placed: Placed) -> NodeDomain | None:
        """Where *placed* stands, None if there is no such domain (any more)."""
        return self.by_host.get(placed.domain[-1]) if self.hosts else self.by_values.get(placed.domain)


class Reservation(NamedTuple):
    """*amounts*: what is taken of *room*, all pods together."""

    room: LeafCapacity
    amounts: Requests


def reservation(room: LeafCapacity, requests: Requests, count: int) -> Reservation:
    """*count* pods that ask *requests* each."""
    return Reservation(room, tuple((resource, amount * count) for resource, amount in of_one_pod(requests)))


def reserve(spots: Iterable[Reservation]) -> None:
    for room, amounts in spots:
        for resource, amount in amounts:
            room.used[resource] = room.used.get(resource, 0) + amount


def release(spots: Iterable[Reservation]) -> None:
    """The inverse of `reserve`."""
    for room, amounts in spots:
        for resource, amount in amounts:
            room.used[resource] -= amount


def can_reserve(spots: Iterable[Reservation]) -> bool:
    """Whether all of *spots* can be occupied at once."""
    wanted: dict[tuple[int, str], int] = {}
    for room, amounts in spots:
        for resource, amount in amounts:
            total = wanted[id(room), resource] = wanted.get((id(room), resource), 0) + amount
            if room.used.get(resource, 0) + total > room.total.get(resource, 0):
                return False
    return True


def node_trees(
    flavors: Iterable[ResourceFlavor], topologies: Iterable[Topology], nodes: Iterable[Node], *, overlapping: bool
) -> dict[str, NodeTree]:
    """By flavor.  *overlapping*: work of one flavor counts in every other that has the same nodes."""
    levels = {each.name: each.levels for each in topologies}
    rooms: dict[tuple[str, ...], LeafCapacity] = {}
    found = {}
    for flavor in flavors:
        if flavor.topology is None or not levels.get(flavor.topology):
            continue
        tree = found[flavor.name] = _tree(flavor, levels[flavor.topology], nodes)
        for leaf in tree.leaves:
            members = tree.nodes[leaf.values]
            key = tuple(sorted(node.name for node in members))
            if not overlapping:
                key = (flavor.name, "", *key)
            leaf.room = rooms.get(key)
            if leaf.room is None:
                leaf.room = rooms[key] = LeafCapacity(members)
            leaf.node = members[0] if tree.hosts else None
    return found


def _tree(flavor: ResourceFlavor, levels: Sequence[str], nodes: Iterable[Node]) -> NodeTree:
    leaves: dict[tuple[str, ...], list[Node]] = {}
    by_host: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        labels = node.labels
        if not node.ready or any(labels.get(key) != value for key, value in flavor.labels.items()):
            continue
        if any(level not in labels for level in levels):
            continue
        values = tuple(labels[level] for level in levels)
        if levels[-1] == HOSTNAME:
            values = by_host.setdefault(values[-1], values)
        leaves.setdefault(values, []).append(node)
    return NodeTree(flavor, levels, leaves)


def held_by(workload: Workload, granted: Iterable[Granted], known: Mapping[str, NodeTree]) -> tuple[Reservation, ...]:
    """The spots of what *workload* was granted; domains that are not there (any more) hold nothing."""
    requests = {each.name: each.requests for each in workload.pod_sets}
    spots = []
    for each in granted:
        tree = next((known[flavor] for _, flavor in each.flavors if flavor in known), None)
        if tree is None or each.pod_set not in requests:
            continue
        for placed in each.placement:
            leaf = tree.leaf(placed)
            if leaf is not None and leaf.room is not None:
                spots.append(reservation(leaf.room, requests[each.pod_set], placed.count))
    return tuple(spots)
