"""The needs of a gang on nodes: its constraint tree with the pods of each shape, and where those pods are placed."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from runrig.domain.gangs import NodeShare
from runrig.domain.quantities import GPU, Requests, totals
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.topology import TopologyIndex
from runrig.engine.placement.constraint_tree import ConstraintNode

ShapeCounts = tuple[tuple[int, int], ...]
"""(shape, pods) pairs, the hardest shape to place first. A shape is an index into `shapes_of`."""


class PodRequest(NamedTuple):
    """*pods* pods of one shape on nodes of one flavor. *only_on*: as in `PodShape`."""

    requests: Requests
    flavor: str
    pods: int
    only_on: str | None = None

    @property
    def shape(self) -> PodShape:
        return PodShape(self.requests, self.flavor, self.only_on)


@dataclass(eq=False)
class Demand:
    """One node of the constraint tree and what it needs. Immutable, so derived values are cached.

    *demand*: pods by shape, including all parts. *pods*: on leaves only, (index of the pod request, shape, pods).
    """

    level: int
    required: bool
    demand: ShapeCounts
    parts: tuple["Demand", ...]
    pods: tuple[tuple[int, int, int], ...]
    group: str

    @cached_property
    def leaves(self) -> tuple["Demand", ...]:
        """The leaves, in pod order."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) if self.parts else (self,)

    @cached_property
    def required_inside(self) -> tuple["Demand", ...]:
        """The distinct needs that any placement must meet: itself, and the required needs below it."""
        below = (need for part in self.parts for need in part.required_inside if need.required)
        return tuple({(need.level, need.demand): need for need in (self, *below)}.values())

    @cached_property
    def slices(self) -> tuple[tuple[int, int], ...]:
        """(level, pods) of the equal slices that it consists of, then of their slices, down to the leaves.

        Empty if it has no parts, or if its parts differ, are preferred, or have pods of several shapes.
        """
        if not self.parts or len(self.demand) != 1:
            return ()
        first = self.parts[0]
        kind = (True, first.level, first.demand, first.slices)
        alike = all((part.required, part.level, part.demand, part.slices) == kind for part in self.parts)
        if not alike or any(part.parts and not part.slices for part in self.parts):
            return ()
        return ((first.level, first.demand[0][1]), *first.slices)

    @cached_property
    def innermost(self) -> "Demand":
        """The smallest need that contains all pods."""
        return self.parts[0].innermost if len(self.parts) == 1 else self

    @cached_property
    def inside(self) -> tuple["Demand", ...]:
        """Itself and all needs below it."""
        return (self, *(need for part in self.parts for need in part.inside))

    @cached_property
    def pod_counts(self) -> tuple[tuple[int, int, int], ...]:
        """`pods` of all leaves, in pod order, merged per pod set."""
        if not self.parts:
            return self.pods
        counts = totals(((pod_set, shape), pods) for part in self.parts for pod_set, shape, pods in part.pod_counts)
        return tuple((*key, pods) for key, pods in counts.items())

    @cached_property
    def size(self) -> tuple[int, ...]:
        """Sort key: needs with more pods of the hardest shape come first."""
        return tuple(value for shape, pods in self.demand for value in (shape, -pods))


class PodPlacement(NamedTuple):
    """Pods of *shape* that belong to *need*: how many on each of *nodes*, distinct indices into the topology's nodes.

    *need*: a leaf, or a need whose leaves are placed together, in their order.
    """

    need: Demand
    shape: int
    nodes: Sequence[int]
    pods: Sequence[int]


def shapes_of(requests: Sequence[PodRequest]) -> list[PodShape]:
    """The distinct shapes, hardest to place first: those of one node, then most GPUs, then most of the other resources."""

    def order(shape: PodShape) -> tuple[bool, int, list[tuple[int, str]], str]:
        gpus = dict(shape.requests).get(GPU, 0)
        return shape.only_on is None, -gpus, [(-amount, resource) for resource, amount in shape.requests], shape.flavor

    return sorted({request.shape: None for request in requests if request.pods}, key=order)


def demand_of(node: ConstraintNode, requests: Sequence[PodRequest], shapes: Sequence[PodShape]) -> Demand:
    """The demand of *node* and everything below it. Pod sets without pods are left out."""
    shape_index = {shape: index for index, shape in enumerate(shapes)}
    parts = tuple(demand_of(part, requests, shapes) for part in node.parts)
    pods = tuple(
        (pod_set, shape_index[requests[pod_set].shape], count) for pod_set, count in node.pods if requests[pod_set].pods
    )
    own = ((shape, count) for _, shape, count in pods)
    total = totals((*own, *(pair for part in parts for pair in part.demand)))
    return Demand(node.level, node.required, tuple(sorted(total.items())), parts, pods, node.group)


def assign_to_pod_sets(
    topology: TopologyIndex, root: Demand, requests: Sequence[PodRequest], placements: Sequence[PodPlacement]
) -> tuple[tuple[NodeShare, ...], ...]:
    """Shares per pod request, in order: consecutive pods of a pod set get the nodes of their leaf."""
    stock: dict[tuple[int, int], _Slots] = {}
    for need, shape, nodes, pods in placements:
        stock.setdefault((id(need), shape), _Slots([], [])).add(nodes, pods)
    taken = [_Slots([], []) for _ in requests]
    for need in _as_placed(root, {id(placement.need) for placement in placements}):
        for pod_set, shape, count in need.pod_counts:
            slots = stock[id(need), shape]
            taken[pod_set].add(*(slots if len(need.pod_counts) == 1 else slots.take(count)))
    names = topology.names
    return tuple(tuple(map(_share, [names[node] for node in nodes], pods)) for nodes, pods in taken)


def _as_placed(need: Demand, placed: Set[int]) -> Iterator[Demand]:
    """Yields the needs that were placed, given by id, in pod order."""
    if not need.parts or id(need) in placed:
        yield need
        return
    for part in need.parts:
        yield from _as_placed(part, placed)


class _Slots(NamedTuple):
    """The number of *pods* on each of *nodes*; consecutive nodes differ."""

    nodes: list[int]
    pods: list[int]

    def add(self, nodes: Sequence[int], pods: Sequence[int]) -> None:
        """Appends slots whose consecutive nodes differ."""
        met = bool(self.nodes) and self.nodes[-1] == nodes[0]
        if met:
            self.pods[-1] += pods[0]
        self.nodes.extend(nodes[met:])
        self.pods.extend(pods[met:])

    def take(self, pods: int) -> "_Slots":
        """Removes *pods* pods from the front and returns them."""
        taken = _Slots([], [])
        while pods:
            part = min(pods, self.pods[0])
            taken.nodes.append(self.nodes[0])
            taken.pods.append(part)
            pods -= part
            self.pods[0] -= part
            if not self.pods[0]:
                del self.nodes[0], self.pods[0]
        return taken


_share = lru_cache(maxsize=1 << 14)(NodeShare)
"""Cached, because the same shares occur again and again, and creating one costs more than finding the node."""


Score = tuple[tuple[int, ...], int, int]
"""How far a placement is from the preferences (rule T2); the smallest is best.

(per level, coarse to fine, two numbers; number of nodes). The first number counts the preferred groups in more than one
domain of the level. The second counts the domains that these groups use at their own level; without preferred groups,
the domains used at the finest level.
"""


def score_of(topology: TopologyIndex, root: Demand, placements: Sequence[PodPlacement]) -> Score:
    nodes: dict[int, list[int]] = {}
    for placement in placements:
        nodes.setdefault(id(placement.need), []).extend(placement.nodes)
    apart = [0] * topology.node_level
    domains = 0
    preferred = list(_preferred(root))
    for need in preferred:
        held = [node for inside in need.inside for node in nodes.get(id(inside), ())]
        for level in range(need.level + 1):
            taken = len({int(topology.of[level][node]) for node in held})
            apart[level] += taken > 1
            domains += taken if level == need.level else 0
    if not preferred:
        finest = topology.of[topology.finest] if topology.finest >= 0 else topology.of[-1]
        domains = len({int(finest[node]) for held in nodes.values() for node in held})
    return tuple(apart), domains, len({node for held in nodes.values() for node in held})


def is_best(root: Demand, score: Score) -> bool:
    """Whether no other placement can score better, so that a second attempt is pointless."""
    return score[1] <= max(1, sum(1 for _ in _preferred(root)))


def _preferred(need: Demand) -> Iterator[Demand]:
    if need.level >= 0 and not need.required:
        yield need
    for part in need.parts:
        yield from _preferred(part)
