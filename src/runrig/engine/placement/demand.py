"""What a gang needs from the nodes: its constraint tree with the pods of each shape, and where those pods are placed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runrig.domain.gangs import NodeShare
from runrig.domain.quantities import GPU, Requests
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.topology import TopologyIndex
from runrig.engine.placement.constraint_tree import ConstraintNode

ShapeCounts = tuple[tuple[int, int], ...]
"""(shape, pods) pairs, the hardest shape to place first; a shape is an index into `shapes_of`."""


class PodRequest(NamedTuple):
    """*pods* of one shape on nodes of one flavor."""

    requests: Requests
    flavor: str
    pods: int


@dataclass(slots=True, eq=False)
class Demand:
    """One node of the constraint tree and what it needs.

    *demand*: pods by shape, all parts included.  *pods*: on leaves only, (index of the pod request, shape, pods).
    """

    level: int
    required: bool
    demand: ShapeCounts
    parts: tuple["Demand", ...]
    pods: tuple[tuple[int, int, int], ...]
    group: str

    def leaves(self) -> Iterator["Demand"]:
        """Yields the leaves in pod order."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    @property
    def size(self) -> tuple[int, ...]:
        """Sort key: the need with more pods of the hardest shape comes first."""
        return tuple(value for shape, pods in self.demand for value in (shape, -pods))


class PodPlacement(NamedTuple):
    """*pods* pods of *shape* that belong to *leaf*, placed on *node* (an index into the topology's nodes)."""

    leaf: Demand
    shape: int
    node: int
    pods: int


def shapes_of(requests: Sequence[PodRequest]) -> list[PodShape]:
    """The distinct shapes, hardest to place first: most GPUs, then most of the other resources."""
    shapes = {PodShape(request.requests, request.flavor): None for request in requests if request.pods}
    return sorted(
        shapes,
        key=lambda shape: (-dict(shape.requests).get(GPU, 0), [(-a, r) for r, a in shape.requests], shape.flavor),
    )


def demand_of(node: ConstraintNode, requests: Sequence[PodRequest], shapes: Sequence[PodShape]) -> Demand:
    """The demand of *node* and everything below it; pod sets without pods are left out."""
    shape_index = {shape: index for index, shape in enumerate(shapes)}
    parts = tuple(demand_of(part, requests, shapes) for part in node.parts)
    pods = tuple(
        (pod_set, shape_index[PodShape(requests[pod_set].requests, requests[pod_set].flavor)], count)
        for pod_set, count in node.pods
        if requests[pod_set].pods
    )
    total: dict[int, int] = {}
    for shape, count in [
        *((shape, count) for _, shape, count in pods),
        *(pair for part in parts for pair in part.demand),
    ]:
        total[shape] = total.get(shape, 0) + count
    return Demand(node.level, node.required, tuple(sorted(total.items())), parts, pods, node.group)


def assign_to_pod_sets(
    topology: TopologyIndex, root: Demand, requests: Sequence[PodRequest], placements: Sequence[PodPlacement]
) -> tuple[tuple[NodeShare, ...], ...]:
    """Shares per pod request, in order: consecutive pods of a pod set take the nodes of their leaf."""
    stock: dict[tuple[int, int], list[list[int]]] = {}
    for placement in placements:
        stock.setdefault((id(placement.leaf), placement.shape), []).append([placement.node, placement.pods])
    shares: list[list[NodeShare]] = [[] for _ in requests]
    for leaf in root.leaves():
        for pod_set, shape, pods in leaf.pods:
            for node, count in _take(stock[id(leaf), shape], pods):
                _add(shares[pod_set], topology.nodes[node].node.name, count)
    return tuple(map(tuple, shares))


def _take(stock: list[list[int]], pods: int) -> Iterator[tuple[int, int]]:
    """Takes *pods* pods off the front of *stock*; yields (node, pods)."""
    while pods:
        node, count = stock[0]
        part = min(pods, count)
        yield node, part
        pods -= part
        if part == count:
            del stock[0]
        else:
            stock[0][1] -= part


def _add(shares: list[NodeShare], node: str, count: int) -> None:
    if shares and shares[-1].node == node:
        shares[-1] = NodeShare(node, shares[-1].count + count)
    else:
        shares.append(NodeShare(node, count))


Score = tuple[tuple[int, ...], int, int]
"""How far a placement is from the preferences (law T2); the smallest is best.

(per level, coarse to fine: preferred groups in more than one domain of it; domains that these groups take at their own level, or,
if the gang has no such group, domains of the finest level that it takes; nodes)."""


def score_of(topology: TopologyIndex, root: Demand, placements: Sequence[PodPlacement]) -> Score:
    """The score of a placement."""
    nodes: dict[int, list[int]] = {}
    for placement in placements:
        nodes.setdefault(id(placement.leaf), []).append(placement.node)
    apart = [0] * topology.node_level
    domains = 0
    preferred = list(_preferred(root))
    for need in preferred:
        held = [node for leaf in need.leaves() for node in nodes.get(id(leaf), ())]
        for level in range(need.level + 1):
            taken = len({int(topology.of[level][node]) for node in held})
            apart[level] += taken > 1
            domains += taken if level == need.level else 0
    if not preferred:
        finest = topology.of[topology.finest] if topology.finest >= 0 else topology.of[-1]
        domains = len({int(finest[placement.node]) for placement in placements})
    return tuple(apart), domains, len({placement.node for placement in placements})


def is_best(root: Demand, score: Score) -> bool:
    """True if no other placement can score better, so that a second attempt is pointless."""
    return score[1] <= max(1, sum(1 for _ in _preferred(root)))


def _preferred(need: Demand) -> Iterator[Demand]:
    if need.level >= 0 and not need.required:
        yield need
    for part in need.parts:
        yield from _preferred(part)
