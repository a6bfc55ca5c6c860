"""Why a gang does not fit: the required groups that no domain has room for, and the closest domains.

Computed on demand for people, never for decisions. O(nodes).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from runrig.domain.natural_order import natural
from runrig.domain.reasons import DomainRoom
from runrig.domain.value import Amounts
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.topology import ROOT, Domain, Ints
from runrig.engine.placement.demand import Demand
from runrig.engine.placement.place import Asked, needs_of, place_demand
from runrig.engine.placement.trial_capacity import TrialCapacity

MOST_NAMED = 3
"""Maximum number of domains named."""

MOST_COMPARED = 16
"""Number of domains with the most pods that are compared by what they lack."""


class Shortage(NamedTuple):
    """*level*: index into the pool's keys. *group*: the name in the tasks. *pods*: how many pods the group has.

    *best*: the closest domains, most pods first; None: each group fits alone, but not all of them together.
    """

    level: int
    group: str
    pods: int
    best: tuple[DomainRoom, ...] | None


def shortages(nodes: ClusterNodes, asked: Asked, layers: Sequence[int]) -> Iterator[Shortage]:
    """Yields what a gang that does not fit in *layers* lacks: each required group that does not fit alone, inner ones first.

    If each fits alone, yields that together they do not; nothing if no group is required.
    """
    shapes, root = needs_of(asked)
    capacity = TrialCapacity(nodes, asked.constraints.labels, shapes, layers)
    whole = capacity.topology.whole(labelled=asked.constraints.asks)
    required = list(_required(root))
    short = False
    for need in required:
        fitting = _fitting(capacity, whole, need)
        pods = sum(count for _, count in need.demand)
        enough = bool(np.any(fitting >= pods))
        if enough and len(need.demand) + len(need.parts) > 1:
            room = TrialCapacity(nodes, asked.constraints.labels, shapes, layers)
            enough = place_demand(room, Demand(ROOT, False, need.demand, (need,), (), ""), whole)[0] is not None
            fitting = np.minimum(fitting, pods - 1)
        if not enough:
            short = True
            yield Shortage(need.level, need.group, pods, _best(capacity, need, whole, fitting))
    if required and not short:
        last = required[-1]
        yield Shortage(last.level, last.group, sum(count for _, count in last.demand), None)


def _required(need: Demand) -> Iterator[Demand]:
    """Yields the required needs, inner ones first."""
    for part in need.parts:
        yield from _required(part)
    if need.required:
        yield need


def _fitting(capacity: TrialCapacity, whole: Domain, need: Demand) -> Ints:
    """Per domain of the need's level, how many of its pods fit, each shape counted alone."""
    first, last = capacity.topology.inside(whole, need.level)
    total = np.zeros(last - first, dtype=np.int64)
    for shape, pods in need.demand:
        total += np.minimum(capacity.level(shape, whole, need.level)[1], pods)
    return total


def _best(capacity: TrialCapacity, need: Demand, whole: Domain, fitting: Ints) -> tuple[DomainRoom, ...]:
    """The closest domains: most pods first, then the smallest relative lack, then by name."""
    first, _ = capacity.topology.inside(whole, need.level)
    order = np.argsort(-fitting, kind="stable")[:MOST_COMPARED]
    asked = capacity.asked(need.demand)
    rooms = [
        _room(capacity, need, capacity.topology.domain(need.level, first + int(offset)), int(fitting[offset]))
        for offset in order
    ]
    rooms.sort(
        key=lambda room: (
            -room.have,
            max((Fraction(lack, asked[kind]) for kind, lack in room.missing.items()), default=0),
            tuple(map(natural, room.domain)),
        )
    )
    return tuple(rooms[:MOST_NAMED])


def _room(capacity: TrialCapacity, need: Demand, domain: Domain, have: int) -> DomainRoom:
    asked = capacity.asked(need.demand)
    free, closed = dict.fromkeys(asked, 0), 0
    flavors = {capacity.shapes[shape].flavor for shape, _ in need.demand}
    counts = [capacity.counts(shape) for shape, _ in need.demand]
    for node in range(domain.first, domain.last):
        if any(fit_counts.takes[node] for fit_counts in counts):
            for resource in free:
                free[resource] += max(0, capacity.free(node).get(resource, asked[resource]))
        else:
            closed += capacity.topology.nodes[node].node.flavor in flavors
    missing = Amounts({each: asked[each] - free[each] for each in asked if asked[each] > free[each]})
    return DomainRoom(capacity.topology.path(domain), have, missing, closed)
