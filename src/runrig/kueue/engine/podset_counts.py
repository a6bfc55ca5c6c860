"""How many pods, slices and leaders of one pod set fit into each domain of a topology, from the leaves up (rules T1, T5).

For imported queues. A leaf is a node of the topology, which may represent several real nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from runrig.domain.quantities import Requests, of_one_pod
from runrig.engine.nodes.topology import TopologyIndex
from runrig.kueue.declared import NodeChoice, TopologyMode, TopologyRequest

NO_UNITS: Mapping[int, int] = {}

Levels = list[Sequence[int]]
Children = Sequence[Sequence[range]]


class PodSetRequest:
    """*count* pods of one pod set, and where they can be placed. *slice_level*, *level*: indices of levels.

    *inner*: level → pods of one slice, for each further layer of slices. *leader*: the requests of one additional pod that must
    be near.
    """

    def __init__(
        self, levels: Sequence[str], topology: TopologyRequest, count: int, requests: Requests, choice: NodeChoice
    ) -> None:
        self.topology = topology
        self.count = count
        self.requests = of_one_pod(requests)
        self.choice = choice
        self.leader: Requests | None = None
        self.leader_choice = choice
        depths = {level: depth for depth, level in enumerate(levels)}
        lowest = len(levels) - 1
        self.level = depths[topology.level] if topology.level else lowest
        self.slice_level, self.slice_size = lowest, 1
        if topology.slices:
            outer = topology.slices[0]
            self.slice_level, self.slice_size = depths[outer.level], outer.size
            if topology.near is TopologyMode.SLICES:
                self.level = 0
            elif topology.near is TopologyMode.UNCONSTRAINED:
                self.level = self.slice_level
        self.inner = {depths[layer.level]: layer.size for layer in topology.slices[1:]}

    def lead_by(self, requests: Requests, choice: NodeChoice) -> None:
        """Adds one pod, the leader, to the same domain."""
        self.leader, self.leader_choice = of_one_pod(requests), choice

    @property
    def slices(self) -> int:
        return self.count // self.slice_size


class DomainShare(NamedTuple):
    """*amount* slices or pods in *domain*, an index within its level. *leads*: the domain also has the leader."""

    domain: int
    amount: int
    leads: bool


class LeafFit(NamedTuple):
    """One number per leaf. `beside`: pods that fit next to a leader, 0 if no leader fits.

    *lead*: whether a leader fits. *score*: the weight of matching preferred affinity terms, or None.
    Without a leader, `beside` and *lead* are None.
    """

    pods: list[int]
    beside: list[int] | None = None
    lead: list[bool] | None = None
    score: list[int] | None = None


class PodSetCounts:
    """Per level, coarse to fine, a list with one number per domain. `beside`: pods that fit next to a leader.

    *lead*: whether a leader fits. *units*, *units_beside*: slices, at their level and above. Without a leader, the
    counts next to one equal the plain ones. Lists instead of columns, because the numbers are read one by one and most
    simulated systems are small.
    """

    def __init__(self, topology: TopologyIndex, request: PodSetRequest, leaves: LeafFit) -> None:
        children = topology.children[:-1]
        size, outer = request.slice_size, children[: request.slice_level]
        self.pods = _upwards(leaves.pods, children, sum, request.inner)
        self.units = self.pods
        if size > 1:
            self.units = _upwards(_slices(self.pods[request.slice_level], size), outer, sum)
        self.score: Levels = [[0] * len(row) for row in self.pods]
        if leaves.score is not None:
            self.score = _upwards(leaves.score, children, sum)
        self.lead: Levels = [[False] * len(row) for row in self.pods]
        self.beside, self.units_beside = self.pods, self.units
        if leaves.lead is not None and leaves.beside is not None:
            self.lead = _upwards(leaves.lead, children, any)
            self.beside = self.units_beside = _beside(leaves.beside, self.pods, self.lead, children, request.inner)
            if size > 1:
                beside = _slices(self.beside[request.slice_level], size)
                self.units_beside = _beside(beside, self.units, self.lead, outer)


def _upwards(
    lowest: Sequence[int],
    children: Children,
    merge: Callable[[Sequence[int]], int],
    units: Mapping[int, int] = NO_UNITS,
) -> Levels:
    """Per level, what *merge* makes of the children, from *lowest* up. *units*: level → the pods that count together there."""
    levels: Levels = [lowest]
    for depth in range(len(children) - 1, -1, -1):
        below = levels[-1] if depth + 1 not in units else _whole(levels[-1], units[depth + 1])
        levels.append([merge(below[members.start : members.stop]) for members in children[depth]])
    levels.reverse()
    return levels


def _beside(
    lowest: Sequence[int], plain: Levels, lead: Levels, children: Children, units: Mapping[int, int] = NO_UNITS
) -> Levels:
    """Per level, what fits next to a leader, placed in the child where it reduces the count least."""
    levels: Levels = [lowest]
    for depth in range(len(children) - 1, -1, -1):
        unit, fits = units.get(depth + 1, 1), lead[depth + 1]
        pairs = zip(_whole(plain[depth + 1], unit), _whole(levels[-1], unit), strict=True)
        costs = [alone - beside for alone, beside in pairs]
        levels.append(
            [
                total - min((costs[child] for child in members if fits[child]), default=total)
                for total, members in zip(plain[depth], children[depth], strict=True)
            ]
        )
    levels.reverse()
    return levels


def _slices(pods: Sequence[int], size: int) -> list[int]:
    return [number // size for number in pods]


def _whole(pods: Sequence[int], unit: int) -> list[int]:
    """*pods*, rounded down to multiples of *unit*."""
    return [number // unit * unit for number in pods]
