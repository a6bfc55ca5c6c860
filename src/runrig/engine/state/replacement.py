"""A lost node: where its pods go, inside the domains in which the others of their gang stay (laws T1, T2).

The same search as for a whole gang.  Only the lost pods need room; of those that stay, one stands for all in each group, as a
pod that asks nothing and fits on its own node alone.  So a required group with pods that stay cannot go elsewhere, one that has
lost all its pods can, and a preference is tried near those that stay first.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from runrig.domain.gangs import Placement
from runrig.engine.ledger.fit import DECIDED, DECIDED_AND_STILL_THERE
from runrig.engine.ledger.ledger import Entry, Ledger
from runrig.engine.nodes.cluster_nodes import Room
from runrig.engine.nodes.topology import MOST_PER_NODE, ROOT, Counts, Domain, Forest, Shape
from runrig.engine.placement.best_fit import Nearest
from runrig.engine.placement.constraint_tree import Knot, Near
from runrig.engine.placement.demand import Need, Put, Wanted, dealt, need_of, shapes_of
from runrig.engine.placement.exact_search import Search
from runrig.engine.placement.pod_slots import Seat, seats_of, shares_of
from runrig.engine.placement.trial_capacity import Space

Pod = tuple[str, int]
"""Name of its pod set, index."""


def find(ledger: Ledger, entry: Entry, lost: Collection[Pod], staying: Collection[Pod]) -> Placement | None:
    """The placement of the admitted *entry* with other nodes for the pods in *lost*; None if there are none, and nobody stops for it.

    Pods neither lost nor *staying* have ended: they keep what they hold, and nobody need lie near them.
    """
    near = ledger.near(entry, tuple(each.count for each in entry.placement))
    if near is None:
        return None
    gone: list[list[int]] = [[] for _ in entry.placement]
    stays: list[dict[int, str]] = [{} for _ in entry.placement]
    for at, each in enumerate(entry.placement):
        for index, seat in enumerate(seats_of(each.shares)):
            if (each.pod_set, index) in lost:
                gone[at].append(index)
            elif (each.pod_set, index) in staying:
                stays[at][index] = seat.node
    forest = ledger.room.forest(near.labels)
    rest = _Rest(forest, gone, stays)
    root = rest.of(near.root)
    if root is None or not rest.whole:
        return None
    wanted = [
        Wanted(pod_set.requests, each.flavor, len(indices))
        for each, pod_set, indices in zip(entry.placement, entry.gang.pod_sets, gone, strict=True)
    ]
    layers = DECIDED_AND_STILL_THERE if ledger.skewed else DECIDED
    return _seated(ledger, entry, gone, _place(ledger.room, wanted, replace(near, root=root), rest.anchors, layers))


def move(ledger: Ledger, entry: Entry, placement: Placement) -> None:
    """*entry*, which is admitted, holds *placement* instead of what it held, in both layers."""
    for each in entry.placement:
        ledger.room.return_gpus(each.shares)
    with ledger.as_if_gone([entry]):
        ledger.uncharge(entry)
        entry.placement, entry.request = placement, ledger.request_of(entry, placement)
        ledger.charge(entry)
    for each in placement:
        ledger.room.take_gpus(each.shares)


Puts = tuple[Forest, Need, Sequence[Wanted], Sequence[Put]]


def _seated(ledger: Ledger, entry: Entry, gone: Sequence[Sequence[int]], found: Puts | None) -> Placement | None:
    """The placement of *entry*, with the pods that are *gone* on new seats."""
    if found is None:
        return None
    spoken: dict[str, int] = {}
    moved = []
    shares = dealt(*found)
    for at, (each, pod_set) in enumerate(zip(entry.placement, entry.gang.pod_sets, strict=True)):
        seats = seats_of(each.shares)
        fresh: list[Seat] = seats_of(ledger.room.with_gpus(shares[at], pod_set.requests, spoken))
        for index, seat in zip(gone[at], fresh, strict=True):
            seats[index] = seat
        moved.append(replace(each, shares=shares_of(seats)))
    return tuple(moved)


# ---------------------------------------------------------------- what is left to place


@dataclass(slots=True)
class _Rest:
    """Cuts a tree down to what is lost.  *gone*, *stays*: per pod set.  *anchors*: nodes of pods that stand for those that stay.

    *whole*: every required group has its pods that stay in one domain, as far as it was looked at.
    """

    forest: Forest
    gone: Sequence[Sequence[int]]
    stays: Sequence[dict[int, str]]
    anchors: list[str] = field(default_factory=list)
    whole: bool = True
    _next: Counter[int] = field(default_factory=Counter)

    def of(self, root: Knot) -> Knot | None:
        """None if nothing is lost."""
        return self._pared(root)[0]

    def _pared(self, knot: Knot) -> tuple[Knot | None, Counter[str]]:
        """*knot* with the lost pods, and one that stands for those that stay; and the latter's nodes."""
        pared = [self._pared(each) for each in knot.parts]
        parts = tuple(part for part, _ in pared if part is not None)
        stay = Counter[str]()
        for _, each in pared:
            stay += each
        pods = tuple(self._pods(knot, stay))
        if not parts and not pods:
            return None, stay
        if stay and knot.required:
            self.whole = self.whole and len({self._domain(node, knot.level) for node in stay}) == 1
        if stay and not any(part is not None and each for part, each in pared):
            anchor = (self._anchor(knot, stay), 1)
            if parts:
                parts = (*parts, Knot(ROOT, False, (anchor,)))
            else:
                pods = (*pods, anchor)
        return replace(knot, pods=pods, parts=parts), stay

    def _pods(self, knot: Knot, stay: Counter[str]) -> Iterator[tuple[int, int]]:
        """The lost ones of a leaf; adds the nodes of the others to *stay*."""
        for at, count in knot.pods:
            indices = range(self._next[at], self._next[at] + count)
            self._next[at] += count
            stay.update(self.stays[at][index] for index in indices if index in self.stays[at])
            lost = sum(index in indices for index in self.gone[at])
            if lost:
                yield at, lost

    def _anchor(self, knot: Knot, stay: Counter[str]) -> int:
        """In the domain that has most of those that stay; of a gang that may stand anywhere, one of the finest level."""
        level = knot.level if knot.level > ROOT else max(self.forest.nodes - 1, 0)
        domains = Counter[int]()
        for node, count in stay.items():
            domains[self._domain(node, level)] += count
        most = min(domains, key=lambda each: (-domains[each], each))
        inside = [node for node in stay if self._domain(node, level) == most]
        self.anchors.append(min(inside, key=lambda node: (-stay[node], node)))
        return len(self.gone) + len(self.anchors) - 1

    def _domain(self, node: str, level: int) -> int:
        return int(self.forest.of[level][self.forest.index[node]])


# ---------------------------------------------------------------- the search


class _Anchored(Space):
    """*anchors*, shapes that ask nothing, have room on one node each, and come first."""

    def __init__(
        self,
        room: Room,
        labels: tuple[str, ...],
        shapes: Sequence[Shape],
        layers: Sequence[int],
        anchors: Sequence[str],
    ) -> None:
        super().__init__(room, labels, shapes, layers)
        self.shapes = [*map(_anchor_shape, anchors), *shapes]
        self._counts = [*map(self._only, anchors), *self._counts]

    def _only(self, node: str) -> Counts:
        forest, at = self.forest, self.forest.index[node]
        takes = np.zeros(len(forest.rooms), dtype=np.bool_)
        takes[at] = True
        counts = Counts([np.zeros(len(starts) - 1, dtype=np.int64) for starts in forest.starts], takes)
        counts.set(forest, at, MOST_PER_NODE)
        return counts


def _anchor_shape(node: str) -> Shape:
    return Shape((), f"stays on {node}")


def _place(
    room: Room, wanted: Sequence[Wanted], near: Near, anchors: Sequence[str], layers: Sequence[int]
) -> Puts | None:
    """Best fit, then the exact search, as for a whole gang (`engine/placement/place.py`)."""
    shapes = shapes_of(wanted)
    nodes = list(dict.fromkeys(anchors))
    space = _Anchored(room, near.labels, shapes, layers, nodes)
    everything = [*wanted, *(Wanted((), _anchor_shape(node).flavor, 1) for node in anchors)]
    root = need_of(near.root, everything, space.shapes)
    whole = space.forest.whole(labelled=near.asks)

    puts = _nearest(space, root, whole, {})
    if puts is None:
        found = Search(space, root, whole).run()
        puts = found.puts and (_nearest(space, root, whole, found.domains) or found.puts)
    return None if puts is None else (space.forest, root, everything, puts)


def _nearest(space: Space, root: Need, whole: Domain, held: Mapping[int, Domain]) -> Sequence[Put] | None:
    attempt = Nearest(space, single=False, held=held)
    return attempt.puts if attempt.put(root, whole) else None
