"""How many pods fit into every domain of a tree, from the leaves up (laws T1, T5).

Of each domain: pods; slices, at the level of the slices and above; whether one leader fits; and both counts beside it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runrig.domain.kueue import MatchExpression, NodeChoice, TopologyMode, TopologyRequest
from runrig.domain.nodes import Node
from runrig.domain.quantities import Requests, of_one_pod
from runrig.engine.kueue.node_matching import holds_on_node, tolerated
from runrig.engine.kueue.node_tree import LeafCapacity, NodeDomain, NodeTree

Assumed = Mapping[LeafCapacity, Mapping[str, int]]
"""What earlier pod sets of the same workload take, by room."""

NOTHING: Mapping[str, int] = {}


class PodSetRequest:
    """*count* pods of one pod set, and where they may stand.  *slice_level*, *level*: places in the tree's levels.

    *inner*: of each level with a further layer of slices, the pods of one.  *leader*: the one pod that must stand near.
    """

    __slots__ = (
        "choice",
        "count",
        "inner",
        "leader",
        "leader_choice",
        "level",
        "requests",
        "slice_level",
        "slice_size",
        "topology",
    )

    def __init__(
        self, tree: NodeTree, topology: TopologyRequest, count: int, requests: Requests, choice: NodeChoice
    ) -> None:
        self.topology = topology
        self.count = count
        self.requests = of_one_pod(requests)
        self.choice = choice
        self.leader: Requests | None = None
        self.leader_choice = choice
        places = {level: at for at, level in enumerate(tree.levels)}
        lowest = len(tree.levels) - 1
        self.level = places[topology.level] if topology.level else lowest
        self.slice_level, self.slice_size = lowest, 1
        if topology.slices:
            outer = topology.slices[0]
            self.slice_level, self.slice_size = places[outer.level], outer.size
            if topology.near is TopologyMode.SLICES:
                self.level = 0
            elif topology.near is TopologyMode.UNCONSTRAINED:
                self.level = self.slice_level
        self.inner = {places[each.level]: each.size for each in topology.slices[1:]}

    def lead_by(self, requests: Requests, choice: NodeChoice) -> None:
        """One pod more, the leader, stands in the same domain."""
        self.leader, self.leader_choice = of_one_pod(requests), choice

    @property
    def slices(self) -> int:
        return self.count // self.slice_size


class DomainShare(NamedTuple):
    """*amount* slices or pods in *domain*; *leads*: and the leader."""

    domain: NodeDomain
    amount: int
    leads: bool


class PodSetFitCounts:
    """Lists by `NodeDomain.at`.  *beside*: pods beside a leader; *units*, *units_beside*: slices, or 0 below their level."""

    def __init__(self, tree: NodeTree, ask: PodSetRequest, assumed: Assumed, *, empty: bool, by_affinity: bool) -> None:
        size = tree.size
        self.pods = [0] * size
        self.beside = [0] * size
        self.lead = [False] * size
        self.units = [0] * size
        self.units_beside = [0] * size
        self.score = [0] * size
        self._ask = ask
        for leaf in tree.leaves:
            self._count_leaf(tree, leaf, assumed, empty=empty, by_affinity=by_affinity)
        lowest = len(tree.levels) - 1
        for level in range(lowest, -1, -1):
            domains = tree.by_level[level]
            if level < lowest:
                for domain in domains:
                    self._sum_up(domain, level)
            if level == ask.slice_level:
                for domain in domains:
                    self.units[domain.at] = self.pods[domain.at] // ask.slice_size
                    self.units_beside[domain.at] = self.beside[domain.at] // ask.slice_size

    def _count_leaf(
        self, tree: NodeTree, leaf: NodeDomain, assumed: Assumed, *, empty: bool, by_affinity: bool
    ) -> None:
        room, ask, at = leaf.room, self._ask, leaf.at
        assert room is not None
        total, used = room.total, NOTHING if empty else room.used
        more = assumed.get(room, NOTHING) if assumed else NOTHING
        pods = 0
        if leaf.node is None or accepts(leaf.node, ask.choice, tree):
            pods = _fit(ask.requests, total, used, more)
        self.pods[at] = self.beside[at] = pods
        if by_affinity and pods and leaf.node is not None:
            self.score[at] = _score(leaf.node, ask.choice)
        if ask.leader is None:
            return
        takes = leaf.node is None or accepts(leaf.node, ask.leader_choice, tree)
        self.lead[at] = takes and _fit(ask.leader, total, used, more) > 0
        self.beside[at] = 0
        if self.lead[at] and pods:
            with_leader = dict(more)
            for resource, amount in ask.leader:
                with_leader[resource] = with_leader.get(resource, 0) + amount
            self.beside[at] = _fit(ask.requests, total, used, with_leader)

    def _sum_up(self, domain: NodeDomain, level: int) -> None:
        """Counts of *domain* from those of its children: a leader costs what it costs where it costs least."""
        at, inner = domain.at, self._ask.inner.get(level + 1, 1)
        children = [child.at for child in domain.children]
        self.score[at] = max(self.score[child] for child in children)
        sliced = level < self._ask.slice_level
        pods = [self.pods[child] // inner * inner for child in children]
        self.pods[at] = self.beside[at] = sum(pods)
        self.units[at] = self.units_beside[at] = sum(self.units[child] for child in children) if sliced else 0
        if self._ask.leader is None:
            return
        costs = [
            (mine - self.beside[child] // inner * inner, self.units[child] - self.units_beside[child])
            for child, mine in zip(children, pods, strict=True)
            if self.lead[child]
        ]
        self.lead[at] = bool(costs)
        self.beside[at] = self.pods[at] - min(cost for cost, _ in costs) if costs else 0
        self.units_beside[at] = self.units[at] - min(cost for _, cost in costs) if costs and sliced else 0


def _fit(requests: Requests, total: Mapping[str, int], used: Mapping[str, int], more: Mapping[str, int]) -> int:
    """How many pods fit beside what is used; a resource that is not there has no room."""
    least = -1
    for resource, amount in requests:
        left = total.get(resource, 0) - used.get(resource, 0)
        if more:
            left -= more.get(resource, 0)
        if left < amount:
            return 0
        count = left // amount
        if least < 0 or count < least:
            least = count
    return least


def accepts(node: Node, choice: NodeChoice, tree: NodeTree) -> bool:
    """Whether pods with this *choice* may stand on *node*: taints, node selector, required node affinity."""
    if node.taints and not all(
        tolerated(taint, (*choice.tolerations, *tree.flavor.tolerations)) for taint in node.taints
    ):
        return False
    if any(node.labels.get(key) != value for key, value in choice.selector):
        return False
    return not choice.terms or any(_all_hold(term, node) for term in choice.terms)


def _score(node: Node, choice: NodeChoice) -> int:
    return sum(weight for weight, term in choice.preferred if _all_hold(term, node))


def _all_hold(term: Sequence[MatchExpression], node: Node) -> bool:
    """An empty term matches nothing, as in Kubernetes."""
    return bool(term) and all(holds_on_node(each, node.labels) for each in term)
