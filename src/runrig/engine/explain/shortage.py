"""Where a gang fails that finds no place: the first required group for which no domain has room, and the domains that come closest.

For people: computed on demand, never while deciding.  O(nodes).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from runrig.domain.reasons import DomainRoom
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.topology import ROOT, Domain, Ints
from runrig.engine.placement.constraint_tree import PlacementConstraints
from runrig.engine.placement.demand import Demand, PodRequest, demand_of, shapes_of
from runrig.engine.placement.place import place_demand
from runrig.engine.placement.trial_capacity import TrialCapacity

MOST_NAMED = 3
"""Domains that are named."""
MOST_COMPARED = 16
"""Of as many, by what they lack."""


class Shortage(NamedTuple):
    """*level*: a place among the keys.  *group*: as the tasks name it.  *best*: most pods first; None: each group alone has a domain."""

    level: int
    group: str
    pods: int
    best: tuple[DomainRoom, ...] | None


def shortage(
    room: ClusterNodes, wanted: Sequence[PodRequest], layers: Sequence[int], constraints: PlacementConstraints
) -> Shortage | None:
    """None of a gang in which no group is required."""
    shapes = shapes_of(wanted)
    capacity = TrialCapacity(room, constraints.labels, shapes, layers)
    whole = capacity.topology.whole(labelled=constraints.asks)
    required = list(_required(demand_of(constraints.root, wanted, shapes)))
    for need in required:
        fitting = _fitting(capacity, whole, need)
        pods = sum(count for _, count in need.demand)
        enough = bool(np.any(fitting >= pods))
        if enough and len(need.demand) + len(need.parts) > 1:
            alone = place_demand(
                TrialCapacity(room, constraints.labels, shapes, layers),
                Demand(ROOT, False, need.demand, (need,), (), ""),
                whole,
            )
            enough = alone[0] is not None
            fitting = np.minimum(fitting, pods - 1)
        if not enough:
            return Shortage(need.level, need.group, pods, _best(capacity, need, whole, fitting))
    if not required:
        return None
    return Shortage(required[-1].level, required[-1].group, sum(count for _, count in required[-1].demand), None)


def _required(need: Demand) -> Iterator[Demand]:
    """Those inside others first."""
    for part in need.parts:
        yield from _required(part)
    if need.required:
        yield need


def _fitting(capacity: TrialCapacity, whole: Domain, need: Demand) -> Ints:
    """Per domain of its level, how many of its pods fit, shape by shape, each as if it had the domain for itself."""
    first, last = capacity.topology.inside(whole, need.level)
    total = np.zeros(last - first, dtype=np.int64)
    for shape, pods in need.demand:
        total += np.minimum(capacity.level(shape, whole, need.level)[1], pods)
    return total


def _best(capacity: TrialCapacity, need: Demand, whole: Domain, fitting: Ints) -> tuple[DomainRoom, ...]:
    first, _ = capacity.topology.inside(whole, need.level)
    order = np.argsort(-fitting, kind="stable")[:MOST_COMPARED]
    asked = _asked(capacity, need)
    found = [
        _room(capacity, need, capacity.topology.domain(need.level, first + int(at)), int(fitting[at])) for at in order
    ]
    found.sort(
        key=lambda each: (-each.have, max((Fraction(lack, asked[kind]) for kind, lack in each.missing), default=0))
    )
    return tuple(found[:MOST_NAMED])


def _asked(capacity: TrialCapacity, need: Demand) -> dict[str, int]:
    asked: dict[str, int] = {}
    for shape, pods in need.demand:
        for resource, amount in capacity.shapes[shape].requests:
            asked[resource] = asked.get(resource, 0) + amount * pods
    return asked


def _room(capacity: TrialCapacity, need: Demand, domain: Domain, have: int) -> DomainRoom:
    asked = _asked(capacity, need)
    free = dict.fromkeys(asked, 0)
    counts = [capacity.counts(shape) for shape, _ in need.demand]
    for node in range(domain.first, domain.last):
        if any(each.takes[node] for each in counts):
            for resource in free:
                free[resource] += max(0, capacity.free(node).get(resource, asked[resource]))
    missing = tuple(
        (resource, asked[resource] - free[resource]) for resource in asked if asked[resource] > free[resource]
    )
    return DomainRoom(capacity.topology.path(domain), have, missing)
