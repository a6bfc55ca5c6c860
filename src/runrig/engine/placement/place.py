"""Placement: on which nodes the pods of a gang go, all of them or none (laws T1, T2).

First by best fit, which is quick and keeps large free domains whole.  Where that finds nothing, an exact search settles whether
there is a place at all, within a fixed budget of steps, so that it needs no clock; if there is, best fit goes once more, held to
the domains that the search found.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from runrig.domain.gangs import NodeShare
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.topology import ROOT, Domain
from runrig.engine.placement.best_fit import BestFit
from runrig.engine.placement.constraint_tree import ConstraintNode, PlacementConstraints
from runrig.engine.placement.demand import (
    Demand,
    PodPlacement,
    PodRequest,
    assign_to_pod_sets,
    demand_of,
    is_best,
    score_of,
    shapes_of,
)
from runrig.engine.placement.exact_search import ExactSearch
from runrig.engine.placement.trial_capacity import TrialCapacity

FEW = 128
"""Shares of a gang of which a second attempt is worth its time."""


class Layout(NamedTuple):
    """*shares* per wanted, in the order asked, or None where there is no place.  *proven* False: the budget ended the search."""

    shares: tuple[tuple[NodeShare, ...], ...] | None
    proven: bool = True


def anywhere(wanted: Sequence[PodRequest]) -> PlacementConstraints:
    """Of pods that need not lie near each other, in a pool without topology keys."""
    return PlacementConstraints(
        (), ConstraintNode(ROOT, False, tuple((at, each.pods) for at, each in enumerate(wanted))), False
    )


def place(
    room: ClusterNodes,
    wanted: Sequence[PodRequest],
    layers: Sequence[int],
    constraints: PlacementConstraints | None = None,
    within: Domain | None = None,
) -> Layout:
    """Where all of *wanted* go at once, counting what is free in every one of *layers*.

    *constraints* None: they need not lie near each other.  *within*: nothing goes outside of this domain of its
    topology; None: all nodes.

    O(what changed + domains of one level) where best fit finds a place or no domain has enough room; else as many steps as
    the search may take.
    """
    constraints = constraints or anywhere(wanted)
    shapes, root = (_kept_needs if constraints.asks else _needs)(constraints, tuple(wanted))
    if not root.demand:
        return Layout(((),) * len(wanted))
    capacity = TrialCapacity(room, constraints.labels, shapes, layers)
    puts, proven = place_demand(capacity, root, within or capacity.topology.whole(labelled=constraints.asks))
    return Layout(None if puts is None else assign_to_pod_sets(capacity.topology, root, wanted, puts), proven)


def _needs(constraints: PlacementConstraints, wanted: tuple[PodRequest, ...]) -> tuple[list[PodShape], Demand]:
    shapes = shapes_of(wanted)
    return shapes, demand_of(constraints.root, wanted, shapes)


_kept_needs = lru_cache(maxsize=256)(_needs)
"""A gang with many groups is asked for again and again."""


def place_demand(capacity: TrialCapacity, root: Demand, whole: Domain) -> tuple[Sequence[PodPlacement] | None, bool]:
    """Where all of *root* goes inside *whole*, None if there is no place; and whether that is proven.  *capacity* is used up."""
    asked = {(need.level, need.demand): need for need in _required(root)}
    if not all(_may(capacity, need, whole) for need in asked.values()):
        return None, True
    puts = _nearest(capacity, root, whole, {})
    if puts is not None:
        return puts, True
    found = ExactSearch(capacity, root, whole).run()
    if found.puts is None:
        return None, found.proven
    return _nearest(capacity, root, whole, found.domains) or found.puts, True


def pods_that_fit(room: ClusterNodes, wanted: PodRequest, layers: Sequence[int]) -> int:
    """How many pods of this shape have room by themselves, at most as many as are wanted."""
    if not wanted.pods:
        return 0
    capacity = TrialCapacity(room, (), shapes_of([wanted]), layers)
    return min(wanted.pods, capacity.holds(0, capacity.topology.whole(labelled=False)))


def _may(capacity: TrialCapacity, need: Demand, whole: Domain) -> bool:
    """Some domain has room for *need*, as far as counts of one shape can tell."""
    if need.level <= whole.level:
        return all(capacity.holds(shape, whole) >= pods for shape, pods in need.demand)
    enough = None
    for shape, pods in need.demand:
        _, counts = capacity.level(shape, whole, need.level)
        enough = counts >= pods if enough is None else enough & (counts >= pods)
    return enough is None or bool(np.any(enough))


def _nearest(
    capacity: TrialCapacity, root: Demand, whole: Domain, held: Mapping[int, Domain]
) -> Sequence[PodPlacement] | None:
    """The largest first; where that leaves something apart which is better together, also the smallest first.  The nearer wins."""
    leaves = {(leaf.level, leaf.demand) for leaf in root.leaves()}
    single = len(root.demand) == 1 and len(list(root.leaves())) == 1
    attempt = BestFit(capacity, single=single, held=held)
    puts = list(attempt.puts) if attempt.put(root, whole) else None
    if len(leaves) == 1 and len(root.demand) == 1:  # all alike: there is but one order
        return puts
    score = score_of(capacity.topology, root, puts) if puts is not None else None
    if score is not None and (is_best(root, score) or len(attempt.puts) > FEW):
        return puts
    attempt.undo()
    other = BestFit(capacity, single=single, held=held, small_first=True)
    if other.put(root, whole) and (score is None or score_of(capacity.topology, root, other.puts) < score):
        puts = list(other.puts)
    other.undo()
    return puts


def _required(need: Demand) -> list[Demand]:
    """*need* and the required ones below it."""
    return [need, *(each for part in need.parts for each in _required(part) if each.required)]
