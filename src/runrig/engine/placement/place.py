"""Placement: which nodes the pods of a gang use, all of them or none (rules T1, T2).

Best fit runs first: it is fast and keeps large free domains whole. If it finds nothing, an exact search decides whether a
placement exists; its limit is a number of steps, so it needs no clock. If one exists, best fit runs again, restricted to the
domains that the search chose.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from runrig.domain.gangs import NodeShare
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.fit_counts import MOST_PER_NODE, PodShape
from runrig.engine.nodes.topology import ROOT, Domain
from runrig.engine.placement.best_fit import nearest
from runrig.engine.placement.constraint_tree import ConstraintNode, PlacementConstraints
from runrig.engine.placement.demand import Demand, PodPlacement, PodRequest, assign_to_pod_sets, demand_of, shapes_of
from runrig.engine.placement.exact_search import ExactSearch
from runrig.engine.placement.trial_capacity import TrialCapacity

NOT_HERE = MOST_PER_NODE + 1
"""Marks a node without enough room."""


class Layout(NamedTuple):
    """*shares*: per pod request, in order; None if no placement was found. *proven* False: the step limit was reached first."""

    shares: tuple[tuple[NodeShare, ...], ...] | None
    proven: bool = True


class Asked(NamedTuple):
    """The demand of a gang on the nodes: its *requests*, one per pod set, and which of the pods must be placed together."""

    requests: tuple[PodRequest, ...]
    constraints: PlacementConstraints


def place(nodes: ClusterNodes, asked: Asked, layers: Sequence[int], within: Domain | None = None) -> Layout:
    """Places all pods together, using only what is free in every one of *layers*.

    *within*: only in this domain of the topology; None: on all nodes.
    O(changed nodes + domains of one level) if best fit succeeds or no domain has enough room; otherwise up to the step limit.
    """
    requests, constraints = asked
    if len(requests) == 1 and requests[0].pods and not constraints.asks:
        share = _tightest_node(nodes, constraints.labels, requests[0], layers, within)
        if share is not None:
            return Layout(((share,),))
    shapes, root = needs_of(asked)
    if not root.demand:
        return Layout(((),) * len(requests))
    capacity = TrialCapacity(nodes, constraints.labels, shapes, layers)
    return place_in(capacity, root, requests, within or capacity.topology.whole(labelled=constraints.asks))


def place_in(capacity: TrialCapacity, root: Demand, requests: Sequence[PodRequest], whole: Domain) -> Layout:
    """Places *requests*, whose demand is *root*, inside *whole*. Leaves *capacity* changed."""
    placements, proven = place_demand(capacity, root, whole)
    return Layout(
        None if placements is None else assign_to_pod_sets(capacity.topology, root, requests, placements), proven
    )


def has_place(nodes: ClusterNodes, asked: Asked, layers: Sequence[int], within: Domain | None = None) -> bool:
    need = need_by_count(asked) if within is None else None
    if need is None:
        return place(nodes, asked, layers, within).shares is not None
    return most_in_one_domain(nodes, need, layers) >= asked.requests[0].pods


def _tightest_node(
    nodes: ClusterNodes, labels: tuple[str, ...], request: PodRequest, layers: Sequence[int], within: Domain | None
) -> NodeShare | None:
    """The result of best fit for *request* if one node inside *within* takes all of its pods; None if none does.

    Ties as in `BestFit`: by room of the domains around the node, finer ones first, then in topology order.
    """
    topology = nodes.topology(labels)
    levels = nodes.counts(labels, request.shape, tuple(layers)).levels
    first, last = (0, len(topology.nodes)) if within is None else (within.first, within.last)
    room = levels[-1][first:last]
    enough = np.where(room < request.pods, NOT_HERE, room)
    least = enough.min(initial=NOT_HERE)
    if least == NOT_HERE:
        return None
    tightest = (enough == least).nonzero()[0] + first
    for of, counts in zip(topology.of[-2::-1], levels[-2::-1], strict=True):
        if len(tightest) > 1:
            around = counts[of[tightest]]
            tightest = tightest[around == around.min()]
    return NodeShare(topology.names[tightest[0]], request.pods)


def may_hold(nodes: ClusterNodes, asked: Asked, layers: Sequence[int]) -> bool:
    """False only if *layers* are proven to lack room for it. For one group of pods of one shape, counting is enough."""
    shapes, root = needs_of(asked)
    if not root.demand:
        return True
    capacity = TrialCapacity(nodes, asked.constraints.labels, shapes, layers)
    whole = capacity.topology.whole(labelled=asked.constraints.asks)
    if len(root.demand) == 1 and len(root.leaves) == 1:
        return all(_may_fit(capacity, need, whole) for need in root.required_inside)
    placements, proven = place_demand(capacity, root, whole)
    return placements is not None or not proven


@lru_cache(maxsize=256)
def needs_of(asked: Asked) -> tuple[list[PodShape], Demand]:
    """Shapes and demand of a gang. Cached, because gangs are placed repeatedly and many are alike."""
    shapes = shapes_of(asked.requests)
    return shapes, demand_of(asked.constraints.root, asked.requests, shapes)


def place_demand(capacity: TrialCapacity, root: Demand, whole: Domain) -> tuple[Sequence[PodPlacement] | None, bool]:
    """(placement of *root* inside *whole*, or None; whether the answer is proven). Leaves *capacity* changed."""
    if not all(_may_fit(capacity, need, whole) for need in root.required_inside):
        return None, True
    placements = nearest(capacity, root, whole, {})
    if placements is not None:
        return placements, True
    result = ExactSearch(capacity, root, whole).run()
    if result.placements is None:
        return None, result.proven
    return nearest(capacity, root, whole, result.domains) or result.placements, True


class DomainNeed(NamedTuple):
    """Pods of one shape that must be in one domain of *level*; ROOT: anywhere. *labelled*: only on nodes with all *labels*."""

    labels: tuple[str, ...]
    labelled: bool
    shape: PodShape
    level: int


def need_by_count(asked: Asked) -> DomainNeed | None:
    """The need of a gang if a placement exists as soon as enough pods fit; None for several pod requests or required domains."""
    requests, constraints = asked
    if len(requests) != 1 or _requires(constraints.root):
        return None
    return DomainNeed(constraints.labels, constraints.asks, requests[0].shape, ROOT)


@lru_cache(maxsize=256)
def _requires(node: ConstraintNode) -> bool:
    return node.required or any(_requires(part) for part in node.parts)


def unmet_need(nodes: ClusterNodes, asked: Asked, layers: Sequence[int]) -> tuple[DomainNeed, int] | None:
    """A need that no domain has room for, and its pods; None if there is room for each need alone.

    If there is one, `place` finds nothing, for larger gangs either.
    """
    for need, pods in needs_in_domains(asked):
        if most_in_one_domain(nodes, need, layers) < pods:
            return need, pods
    return None


def needs_in_domains(asked: Asked) -> Iterator[tuple[DomainNeed, int]]:
    """Yields each need for room in one domain, one per shape, with its pods."""
    shapes, root = needs_of(asked)
    labels, asks = asked.constraints.labels, asked.constraints.asks
    for group in root.required_inside:
        for shape, pods in group.demand:
            yield DomainNeed(labels, asks, shapes[shape], group.level), pods


def most_in_one_domain(nodes: ClusterNodes, need: DomainNeed, layers: Sequence[int]) -> int:
    """How many pods of the shape fit into the roomiest domain of the level."""
    capacity = TrialCapacity(nodes, need.labels, [need.shape], layers)
    whole = capacity.topology.whole(labelled=need.labelled)
    if need.level <= whole.level:
        return capacity.holds(0, whole)
    return int(capacity.level(0, whole, need.level)[1].max(initial=0))


def pods_that_fit(nodes: ClusterNodes, request: PodRequest, layers: Sequence[int], labels: tuple[str, ...] = ()) -> int:
    """How many pods of *request* fit if nothing else is placed; at most as many as it requests.

    *labels*: the topology whose counts are read. The result is the same for all, but each must be computed once.
    """
    if not request.pods:
        return 0
    capacity = TrialCapacity(nodes, labels, shapes_of([request]), layers)
    return min(request.pods, capacity.holds(0, capacity.topology.whole(labelled=False)))


def _may_fit(capacity: TrialCapacity, need: Demand, whole: Domain) -> bool:
    """False if no domain has room for *need*, each shape counted alone."""
    if need.level <= whole.level:
        return all(capacity.holds(shape, whole) >= pods for shape, pods in need.demand)
    enough = None
    for shape, pods in need.demand:
        _, counts = capacity.level(shape, whole, need.level)
        enough = counts >= pods if enough is None else enough & (counts >= pods)
    return enough is None or bool(np.any(enough))
