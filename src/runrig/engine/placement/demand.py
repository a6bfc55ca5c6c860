"""What a gang needs of the nodes: its knots with their demand per shape, and the pods put down for each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runrig.domain.gangs import NodeShare
from runrig.domain.quantities import GPU, Requests
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.topology import TopologyIndex
from runrig.engine.placement.constraint_tree import ConstraintNode

ShapeCounts = tuple[tuple[int, int], ...]
"""(shape, pods), the shape that is hardest to place first."""


class PodRequest(NamedTuple):
    """*pods* of one shape on nodes of one flavor."""

    requests: Requests
    flavor: str
    pods: int


@dataclass(slots=True, eq=False)
class Demand:
    """A node.  *demand*: with all below it.  *pods*: of leaves, (place in what is wanted, shape, pods)."""

    level: int
    required: bool
    demand: ShapeCounts
    parts: tuple["Demand", ...]
    pods: tuple[tuple[int, int, int], ...]
    group: str

    def leaves(self) -> Iterator["Demand"]:
        """In the order of the pods."""
        if not self.parts:
            yield self
        for each in self.parts:
            yield from each.leaves()

    @property
    def size(self) -> tuple[int, ...]:
        """More pods of the hardest shape come first."""
        return tuple(value for shape, pods in self.demand for value in (shape, -pods))


class PodPlacement(NamedTuple):
    """*pods* of *shape* that belong to *leaf*, on a node, by its place in the topology."""

    leaf: Demand
    shape: int
    node: int
    pods: int


def shapes_of(wanted: Sequence[PodRequest]) -> list[PodShape]:
    """Each once; the hardest to place first."""
    found = {PodShape(each.requests, each.flavor): None for each in wanted if each.pods}
    return sorted(
        found, key=lambda each: (-dict(each.requests).get(GPU, 0), [(-a, r) for r, a in each.requests], each.flavor)
    )


def demand_of(node: ConstraintNode, wanted: Sequence[PodRequest], shapes: Sequence[PodShape]) -> Demand:
    """*node* and all below it; pod sets without pods are left out."""
    place = {shape: at for at, shape in enumerate(shapes)}
    parts = tuple(demand_of(each, wanted, shapes) for each in node.parts)
    pods = tuple(
        (at, place[PodShape(wanted[at].requests, wanted[at].flavor)], count)
        for at, count in node.pods
        if wanted[at].pods
    )
    total: dict[int, int] = {}
    for shape, count in [
        *((shape, count) for _, shape, count in pods),
        *(pair for part in parts for pair in part.demand),
    ]:
        total[shape] = total.get(shape, 0) + count
    return Demand(node.level, node.required, tuple(sorted(total.items())), parts, pods, node.group)


def assign_to_pod_sets(
    topology: TopologyIndex, root: Demand, wanted: Sequence[PodRequest], puts: Sequence[PodPlacement]
) -> tuple[tuple[NodeShare, ...], ...]:
    """The pods put down, dealt out to what asked for them: consecutive pods of a pod set stand where their leaf stands."""
    stock: dict[tuple[int, int], list[list[int]]] = {}
    for put in puts:
        stock.setdefault((id(put.leaf), put.shape), []).append([put.node, put.pods])
    shares: list[list[NodeShare]] = [[] for _ in wanted]
    for leaf in root.leaves():
        for at, shape, pods in leaf.pods:
            for node, count in _deal(stock[id(leaf), shape], pods):
                _add(shares[at], topology.nodes[node].node.name, count)
    return tuple(map(tuple, shares))


def _deal(stock: list[list[int]], pods: int) -> Iterator[tuple[int, int]]:
    """Takes *pods* off the front."""
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
"""How far from what is preferred (law T2), the least is best: per level, coarse to fine, how many preferred groups are in more than
one domain of it; how many domains those groups take of their own level, of a gang without such groups how many of the finest; nodes."""


def score_of(topology: TopologyIndex, root: Demand, puts: Sequence[PodPlacement]) -> Score:
    """Of a placement."""
    nodes: dict[int, list[int]] = {}
    for put in puts:
        nodes.setdefault(id(put.leaf), []).append(put.node)
    apart = [0] * topology.node_level
    domains = 0
    preferred = list(_preferred(root))
    for need in preferred:
        places = [node for leaf in need.leaves() for node in nodes.get(id(leaf), ())]
        for level in range(need.level + 1):
            taken = len({int(topology.of[level][node]) for node in places})
            apart[level] += taken > 1
            domains += taken if level == need.level else 0
    if not preferred:
        finest = topology.of[topology.finest] if topology.finest >= 0 else topology.of[-1]
        domains = len({int(finest[put.node]) for put in puts})
    return tuple(apart), domains, len({put.node for put in puts})


def is_best(root: Demand, score: Score) -> bool:
    """Nothing is nearer, whatever the order in which it is placed."""
    return score[1] <= max(1, sum(1 for _ in _preferred(root)))


def _preferred(need: Demand) -> Iterator[Demand]:
    if need.level >= 0 and not need.required:
        yield need
    for part in need.parts:
        yield from _preferred(part)
