"""Where a gang fails that finds no place: the first required group for which no domain has room, and the domains that come closest.

For people: computed on demand, never while deciding.  O(nodes).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from runrig.domain.reasons import DomainRoom
from runrig.engine.nodes.cluster_nodes import Room
from runrig.engine.nodes.topology import ROOT, Domain, Ints
from runrig.engine.placement.constraint_tree import Near
from runrig.engine.placement.demand import Need, Wanted, need_of, shapes_of
from runrig.engine.placement.place import find
from runrig.engine.placement.trial_capacity import Space

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


def shortage(room: Room, wanted: Sequence[Wanted], layers: Sequence[int], near: Near) -> Shortage | None:
    """None of a gang in which no group is required."""
    shapes = shapes_of(wanted)
    space = Space(room, near.labels, shapes, layers)
    whole = space.forest.whole(labelled=near.asks)
    required = list(_required(need_of(near.root, wanted, shapes)))
    for need in required:
        fitting = _fitting(space, whole, need)
        pods = sum(count for _, count in need.demand)
        enough = bool(np.any(fitting >= pods))
        if enough and len(need.demand) + len(need.parts) > 1:
            alone = find(
                Space(room, near.labels, shapes, layers), Need(ROOT, False, need.demand, (need,), (), ""), whole
            )
            enough = alone[0] is not None
            fitting = np.minimum(fitting, pods - 1)
        if not enough:
            return Shortage(need.level, need.group, pods, _best(space, need, whole, fitting))
    if not required:
        return None
    return Shortage(required[-1].level, required[-1].group, sum(count for _, count in required[-1].demand), None)


def _required(need: Need) -> Iterator[Need]:
    """Those inside others first."""
    for part in need.parts:
        yield from _required(part)
    if need.required:
        yield need


def _fitting(space: Space, whole: Domain, need: Need) -> Ints:
    """Per domain of its level, how many of its pods fit, shape by shape, each as if it had the domain for itself."""
    first, last = space.forest.inside(whole, need.level)
    total = np.zeros(last - first, dtype=np.int64)
    for shape, pods in need.demand:
        total += np.minimum(space.level(shape, whole, need.level)[1], pods)
    return total


def _best(space: Space, need: Need, whole: Domain, fitting: Ints) -> tuple[DomainRoom, ...]:
    first, _ = space.forest.inside(whole, need.level)
    order = np.argsort(-fitting, kind="stable")[:MOST_COMPARED]
    asked = _asked(space, need)
    found = [_room(space, need, space.forest.domain(need.level, first + int(at)), int(fitting[at])) for at in order]
    found.sort(
        key=lambda each: (-each.have, max((Fraction(lack, asked[kind]) for kind, lack in each.missing), default=0))
    )
    return tuple(found[:MOST_NAMED])


def _asked(space: Space, need: Need) -> dict[str, int]:
    asked: dict[str, int] = {}
    for shape, pods in need.demand:
        for resource, amount in space.shapes[shape].requests:
            asked[resource] = asked.get(resource, 0) + amount * pods
    return asked


def _room(space: Space, need: Need, domain: Domain, have: int) -> DomainRoom:
    asked = _asked(space, need)
    free = dict.fromkeys(asked, 0)
    counts = [space.counts(shape) for shape, _ in need.demand]
    for node in range(domain.first, domain.last):
        if any(each.takes[node] for each in counts):
            for resource in free:
                free[resource] += max(0, space.free(node).get(resource, asked[resource]))
    missing = tuple(
        (resource, asked[resource] - free[resource]) for resource in asked if asked[resource] > free[resource]
    )
    return DomainRoom(space.forest.path(domain), have, missing)
