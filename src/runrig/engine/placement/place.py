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
from runrig.engine.nodes.cluster_nodes import Room
from runrig.engine.nodes.topology import ROOT, Domain, Shape
from runrig.engine.placement.best_fit import Nearest
from runrig.engine.placement.constraint_tree import Knot, Near
from runrig.engine.placement.demand import Need, Put, Wanted, dealt, is_best, need_of, score_of, shapes_of
from runrig.engine.placement.exact_search import Search
from runrig.engine.placement.trial_capacity import Space

FEW = 128
"""Shares of a gang of which a second attempt is worth its time."""


class Layout(NamedTuple):
    """*shares* per wanted, in the order asked, or None where there is no place.  *proven* False: the budget ended the search."""

    shares: tuple[tuple[NodeShare, ...], ...] | None
    proven: bool = True


def anywhere(wanted: Sequence[Wanted]) -> Near:
    """Of pods that need not lie near each other, in a pool without topology keys."""
    return Near((), Knot(ROOT, False, tuple((at, each.pods) for at, each in enumerate(wanted))), False)


def place(
    room: Room,
    wanted: Sequence[Wanted],
    layers: Sequence[int],
    near: Near | None = None,
    within: Domain | None = None,
) -> Layout:
    """Where all of *wanted* go at once, counting what is free in every one of *layers*.

    *near* None: they need not lie near each other.  *within*: a domain of its forest outside of which nothing goes; None: all nodes.

    O(what changed + domains of one level) where best fit finds a place or no domain has enough room; else as many steps as
    the search may take.
    """
    near = near or anywhere(wanted)
    shapes, root = (_kept_needs if near.asks else _needs)(near, tuple(wanted))
    if not root.demand:
        return Layout(((),) * len(wanted))
    space = Space(room, near.labels, shapes, layers)
    puts, proven = find(space, root, within or space.forest.whole(labelled=near.asks))
    return Layout(None if puts is None else dealt(space.forest, root, wanted, puts), proven)


def _needs(near: Near, wanted: tuple[Wanted, ...]) -> tuple[list[Shape], Need]:
    shapes = shapes_of(wanted)
    return shapes, need_of(near.root, wanted, shapes)


_kept_needs = lru_cache(maxsize=256)(_needs)
"""A gang with many groups is asked for again and again."""


def find(space: Space, root: Need, whole: Domain) -> tuple[Sequence[Put] | None, bool]:
    """Where all of *root* goes inside *whole*, None if there is no place; and whether that is proven.  *space* is used up."""
    asked = {(need.level, need.demand): need for need in _required(root)}
    if not all(_may(space, need, whole) for need in asked.values()):
        return None, True
    puts = _nearest(space, root, whole, {})
    if puts is not None:
        return puts, True
    found = Search(space, root, whole).run()
    if found.puts is None:
        return None, found.proven
    return _nearest(space, root, whole, found.domains) or found.puts, True


def most_pods(room: Room, wanted: Wanted, layers: Sequence[int]) -> int:
    """How many pods of this shape have room by themselves, at most as many as are wanted."""
    if not wanted.pods:
        return 0
    space = Space(room, (), shapes_of([wanted]), layers)
    return min(wanted.pods, space.holds(0, space.forest.whole(labelled=False)))


def _may(space: Space, need: Need, whole: Domain) -> bool:
    """Some domain has room for *need*, as far as counts of one shape can tell."""
    if need.level <= whole.level:
        return all(space.holds(shape, whole) >= pods for shape, pods in need.demand)
    enough = None
    for shape, pods in need.demand:
        _, counts = space.level(shape, whole, need.level)
        enough = counts >= pods if enough is None else enough & (counts >= pods)
    return enough is None or bool(np.any(enough))


def _nearest(space: Space, root: Need, whole: Domain, held: Mapping[int, Domain]) -> Sequence[Put] | None:
    """The largest first; where that leaves something apart which is better together, also the smallest first.  The nearer wins."""
    leaves = {(leaf.level, leaf.demand) for leaf in root.leaves()}
    single = len(root.demand) == 1 and len(list(root.leaves())) == 1
    attempt = Nearest(space, single=single, held=held)
    puts = list(attempt.puts) if attempt.put(root, whole) else None
    if len(leaves) == 1 and len(root.demand) == 1:  # all alike: there is but one order
        return puts
    score = score_of(space.forest, root, puts) if puts is not None else None
    if score is not None and (is_best(root, score) or len(attempt.puts) > FEW):
        return puts
    attempt.undo()
    other = Nearest(space, single=single, held=held, small_first=True)
    if other.put(root, whole) and (score is None or score_of(space.forest, root, other.puts) < score):
        puts = list(other.puts)
    other.undo()
    return puts


def _required(need: Need) -> list[Need]:
    """*need* and the required ones below it."""
    return [need, *(each for part in need.parts for each in _required(part) if each.required)]
