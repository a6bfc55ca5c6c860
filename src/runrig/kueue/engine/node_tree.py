"""Nodes of the flavors with a topology, in topology order, and what is in use on them (rule T1).

A node belongs to a flavor if it accepts pods, has the flavor's labels and a value for every level. Nodes with equal values for
all levels are one leaf; if the lowest level is the host name, only the name distinguishes leaves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED, Requests, of_one_pod
from runrig.engine.nodes.fit_counts import FitCountCache, PodShape, fitting_pods
from runrig.engine.nodes.node_capacity import Journal, NodeCapacity
from runrig.engine.nodes.topology import Ints, TopologyIndex
from runrig.engine.quota.quota_node import CHARGED
from runrig.kueue.declared import Granted, MatchExpression, NodeChoice, Placed, ResourceFlavor, Topology, Workload
from runrig.kueue.engine.node_matching import holds_on_node, tolerated
from runrig.kueue.engine.podset_counts import LeafFit, PodSetRequest

NO_WORK = 1
"""The second layer of a leaf, which contains only pod sets of the workload being placed."""


class LeafCapacity(NodeCapacity):
    """One or several nodes as one. Flavors with the same nodes share it. It has none of the resources that it does not list."""

    __slots__ = ("_journal",)

    def __init__(self, name: str, members: Sequence[Node], journal: Journal) -> None:
        total = dict.fromkeys(UNLISTED_IS_UNCOUNTED, 0)
        for node in members:
            for resource, amount in node.resources.items():
                total[resource] = total.get(resource, 0) + amount
        self.node = Node(name, total, labels=members[0].labels, taints=members[0].taints)
        self.free = (dict(total), dict(total), total)
        self.gpus = []
        self._journal = journal

    def hold(self, requests: Requests, count: int, layer: int) -> None:
        super().hold(requests, count, layer)
        self._journal.note(self.node.name)


class NodeTree:
    """The leaves of one flavor in topology order, and how many pods fit on them. Levels are node labels, coarse to fine."""

    def __init__(
        self, flavor: ResourceFlavor, levels: Sequence[str], leaves: Iterable[LeafCapacity], journal: Journal
    ) -> None:
        self.topology = TopologyIndex(levels, leaves)
        self._flavor = flavor
        self._journal = journal
        self._hosts = levels[-1] == HOSTNAME
        """Leaves are single nodes: selectors, affinity and taints are checked for each."""
        paths = self.topology.paths
        keys = [path[-1:] for path in paths] if self._hosts else paths
        self._index = {key: leaf for leaf, key in enumerate(keys)}
        self._takes: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]] = {}
        self._names: dict[NodeChoice, str] = {}
        self._cache = FitCountCache(self.topology, self._takes)

    def leaf(self, placed: Placed) -> NodeCapacity | None:
        """The leaf of *placed*; None if that domain does not exist."""
        index = self._index.get(placed.domain[-1:] if self._hosts else placed.domain)
        return None if index is None else self.topology.nodes[index]

    def fit(self, request: PodSetRequest, layer: int, *, by_affinity: bool) -> LeafFit:
        """How many pods fit on each leaf in *layer*. Valid until the next change; read-only."""
        pods = self._pods(request.requests, request.choice, layer)
        fits: list[int] = pods.tolist()
        score = self._score(request.choice, fits) if by_affinity and request.choice.preferred else None
        if request.leader is None:
            return LeafFit(fits, score=score)
        lead = self._pods(request.leader, request.leader_choice, layer) > 0
        beside = fitting_pods(self.topology.nodes, request.requests, layer, taken=dict(request.leader))
        beside[~lead | (pods == 0)] = 0
        return LeafFit(fits, beside.tolist(), lead.tolist(), score)

    def _pods(self, requests: Requests, choice: NodeChoice, layer: int) -> Ints:
        name = self._names.get(choice)
        if name is None:
            name = self._names[choice] = f"choice {len(self._names)}"
            takes = np.array(
                [not self._hosts or self._accepts(leaf.node, choice) for leaf in self.topology.nodes], dtype=np.bool_
            )
            self._takes[name] = (takes, takes)
        return self._cache.counts(PodShape(requests, name), (layer,), self._journal).levels[-1]

    def _accepts(self, node: Node, choice: NodeChoice) -> bool:
        """Whether pods with this *choice* can use *node*: taints, node selector, required node affinity."""
        tolerations = (*choice.tolerations, *self._flavor.tolerations)
        return (
            all(tolerated(taint, tolerations) for taint in node.taints)
            and all(node.labels.get(key) == value for key, value in choice.selector)
            and (not choice.terms or any(_all_hold(term, node) for term in choice.terms))
        )

    def _score(self, choice: NodeChoice, fits: Iterable[int]) -> list[int]:
        """Per leaf, the sum of weights of matching preferred terms; 0 if no pod fits, or if leaves are several nodes."""
        return [
            sum(weight for weight, term in choice.preferred if pods and self._hosts and _all_hold(term, leaf.node))
            for leaf, pods in zip(self.topology.nodes, fits, strict=True)
        ]


def _all_hold(term: Sequence[MatchExpression], node: Node) -> bool:
    """An empty term matches nothing, as in Kubernetes. *node*: of a leaf; the last line of its name is the node's name."""
    name = node.name.rpartition("\n")[2]
    return bool(term) and all(holds_on_node(expression, name, node.labels) for expression in term)


class Reservation(NamedTuple):
    """Capacity on *leaf* for *pods* pods that use *requests* each."""

    leaf: NodeCapacity
    requests: Requests
    pods: int


def reserve(reservations: Iterable[Reservation], layer: int = CHARGED) -> None:
    for leaf, requests, pods in reservations:
        leaf.hold(requests, pods, layer)


def release(reservations: Iterable[Reservation], layer: int = CHARGED) -> None:
    """The inverse of `reserve`."""
    for leaf, requests, pods in reservations:
        leaf.hold(requests, -pods, layer)


def can_reserve(reservations: Iterable[Reservation]) -> bool:
    """Whether all of *reservations* fit together."""
    wanted: dict[tuple[int, str], int] = {}
    for leaf, requests, pods in reservations:
        for resource, amount in requests:
            total = wanted[id(leaf), resource] = wanted.get((id(leaf), resource), 0) + amount * pods
            if leaf.free[CHARGED].get(resource, 0) < total:
                return False
    return True


def node_trees(
    flavors: Iterable[ResourceFlavor], topologies: Iterable[Topology], nodes: Sequence[Node], *, overlapping: bool
) -> dict[str, NodeTree]:
    """Flavor → the tree of its nodes. *overlapping*: work of one flavor counts in all others with the same nodes."""
    levels = {topology.name: topology.levels for topology in topologies}
    journal = Journal()
    known: dict[str, LeafCapacity] = {}
    trees = {}
    for flavor in flavors:
        if flavor.topology is None or not levels.get(flavor.topology):
            continue
        leaves = []
        for members in _members(flavor, levels[flavor.topology], nodes):
            name = "\n".join(("" if overlapping else flavor.name, *sorted(node.name for node in members)))
            if name not in known:
                known[name] = LeafCapacity(name, members, journal)
            leaves.append(known[name])
        trees[flavor.name] = NodeTree(flavor, levels[flavor.topology], leaves, journal)
    return trees


def _members(flavor: ResourceFlavor, levels: Sequence[str], nodes: Iterable[Node]) -> Iterable[list[Node]]:
    """The nodes of *flavor*, leaf by leaf."""
    leaves: dict[tuple[str, ...], list[Node]] = {}
    for node in nodes:
        labels = node.labels
        if not node.ready or any(labels.get(key) != value for key, value in flavor.labels.items()):
            continue
        if all(level in labels for level in levels):
            values = tuple(labels[level] for level in levels)
            leaves.setdefault(values[-1:] if levels[-1] == HOSTNAME else values, []).append(node)
    return leaves.values()


def held_by(spec: Workload, granted: Iterable[Granted], trees: Mapping[str, NodeTree]) -> tuple[Reservation, ...]:
    """The node usage of *spec* by its *granted* placement; missing domains are skipped."""
    requests = {pod_set.name: of_one_pod(pod_set.requests) for pod_set in spec.pod_sets}
    reservations = []
    for grant in granted:
        tree = next((trees[flavor] for _, flavor in grant.flavors if flavor in trees), None)
        if tree is None or grant.pod_set not in requests:
            continue
        for placed in grant.placement:
            leaf = tree.leaf(placed)
            if leaf is not None:
                reservations.append(Reservation(leaf, requests[grant.pod_set], placed.count))
    return tuple(reservations)
