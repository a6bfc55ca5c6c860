"""Placing by best fit: the narrowest domain that works, then the fewest domains, then the tightest (law T2).

Largest needs first, each in the domain that suits it best; a few others are tried where that leaves no place for what comes
after.  What it finds is a placement; that it finds none proves nothing, see `engine/placement/exact_search.py`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from runrig.engine.nodes.topology import ROOT, Domain, Ints
from runrig.engine.placement.demand import Demand, PodPlacement, ShapeCounts
from runrig.engine.placement.packing import pack
from runrig.engine.placement.trial_capacity import TrialCapacity

MOST_COMPARED = 32
"""Domains of one level, the tightest, that are compared by how many nodes, or finer domains, would be needed of them."""

MOST_TRIED = 6
"""Domains of one level that are tried for one need."""

SMALL = 32
"""Nodes of a domain in which unlike pods are packed exactly, if the simple way fails."""
PACKING_STEPS = 500


class BestFit:
    """One attempt; *puts* is what it has put down.

    *single*: one leaf of one shape, so that nothing comes after it.  *held*: by identity, needs that may only go into this domain.
    """

    def __init__(
        self, capacity: TrialCapacity, *, single: bool, held: Mapping[int, Domain], small_first: bool = False
    ) -> None:
        self._capacity = capacity
        self._topology = capacity.topology
        self._nodes = capacity.topology.node_level
        self._single = single
        self._held = held
        self._small_first = small_first
        self._stands: Counter[tuple[int, int]] = Counter()
        self.puts: list[PodPlacement] = []

    def put(self, need: Demand, where: Domain) -> bool:
        """All of *need* inside *where*; False, with nothing changed, if no place was found."""
        for domain in self._rooms(need, where):
            mark = len(self.puts)
            if self._fill(need, domain):
                return True
            self._back_to(mark)
        return False

    def undo(self) -> None:
        """Takes everything back."""
        self._back_to(0)

    def _back_to(self, mark: int) -> None:
        if self._single:
            del self.puts[mark:]
            return
        self._capacity.back_to(mark)
        while len(self.puts) > mark:
            put = self.puts.pop()
            self._stand(put.node, -1)

    def _stand(self, node: int, more: int) -> None:
        for level, of in enumerate(self._topology.of):
            self._stands[level, int(of[node])] += more

    def _rooms(self, need: Demand, where: Domain) -> Iterator[Domain]:
        """Domains to try: of the level that is asked for, and of a preference then the coarser ones, up to *where* itself."""
        held = self._held.get(id(need))
        if held is not None:
            yield held
            return
        if need.level > where.level:
            coarsest = need.level if need.required else where.level + 1
            for level in range(need.level, coarsest - 1, -1):
                yield from self._best(need.demand, where, level)
        if need.level <= where.level or not need.required:
            yield where

    def _fill(self, need: Demand, domain: Domain) -> bool:
        if need.parts:
            return all(self.put(part, domain) for part in self._parts(need))
        spread = need.level if need.level > ROOT and not need.required else self._topology.finest
        if len(need.demand) == 1:
            return self._spread(need, *need.demand[0], domain, spread)
        return self._mixed(need, domain, spread)

    def _parts(self, need: Demand) -> list[Demand]:
        return sorted(need.parts, key=lambda part: part.size, reverse=self._small_first)

    # ------------------------------------------------------------ unlike pods

    def _mixed(self, need: Demand, where: Domain, spread: int) -> bool:
        """Pods of several shapes: together in the narrowest domain that takes all of them."""
        for level in range(self._nodes, where.level, -1):
            for domain in self._best(need.demand, where, level):
                if self._together(need, domain, spread):
                    return True
        return self._piece_by_piece(need, where, spread) or self._together(need, where, spread)

    def _piece_by_piece(self, need: Demand, where: Domain, level: int) -> bool:
        """Over the fewest domains of *level*: one that takes all that is left, else the one that takes most of it."""
        if level <= where.level:
            return False
        mark = len(self.puts)
        left = dict(need.demand)
        while left:
            domain = self._fullest(left, where, level)
            before = sum(left.values())
            for shape in sorted(left):
                part = min(left[shape], self._capacity.holds(shape, domain))
                if part:
                    self._spread(need, shape, part, domain, self._nodes)
                left[shape] -= part
            left = {shape: pods for shape, pods in left.items() if pods}
            if sum(left.values()) == before:
                self._back_to(mark)
                return False
        return True

    def _fullest(self, left: Mapping[int, int], where: Domain, level: int) -> Domain:
        whole = next(self._best(tuple(sorted(left.items())), where, level), None)
        if whole is not None:
            return whole
        first, _ = self._topology.inside(where, level)
        taken = [np.minimum(self._capacity.level(shape, where, level)[1], pods) for shape, pods in sorted(left.items())]
        # The hardest shape counts first; the later ones only tell equals apart.
        order = np.lexsort([-each for each in reversed(taken)])
        return self._topology.domain(level, first + int(order[0]))

    def _together(self, need: Demand, domain: Domain, spread: int) -> bool:
        if domain.level == self._nodes:
            if not self._capacity.fits(domain.first, need.demand):
                return False
            for shape, pods in need.demand:
                self._put(need, shape, domain.first, pods)
            return True
        mark = len(self.puts)
        if all(self._spread(need, shape, pods, domain, spread) for shape, pods in need.demand):
            return True
        self._back_to(mark)
        if domain.last - domain.first > SMALL:
            return False
        packed, _, _ = pack(self._capacity, [(shape, domain, pods) for shape, pods in need.demand], PACKING_STEPS)
        for at, node, pods in packed or ():
            self._put(need, need.demand[at][0], node, pods)
        return packed is not None

    # ------------------------------------------------------------ pods of one shape

    def _spread(self, need: Demand, shape: int, pods: int, where: Domain, spread: int) -> bool:
        """In the narrowest domain that has room for all; inside it over the fewest domains of level *spread*, then of nodes."""
        room = self._capacity.holds(shape, where)
        if room < pods:
            return False
        if where.last - where.first == 1:
            self._put(need, shape, where.first, pods)
            return True
        if room == pods:
            nodes = self._capacity.counts(shape).levels[-1][where.first : where.last]
            for at in np.flatnonzero(nodes).tolist():
                self._put(need, shape, where.first + at, int(nodes[at]))
            return True
        where = self._narrowed(shape, pods, where)
        if where.level == self._nodes:
            self._put(need, shape, where.first, pods)
            return True
        for domain, part in self._divided(shape, pods, where, spread if spread > where.level else self._nodes):
            self._spread(need, shape, part, domain, spread)
        return True

    def _narrowed(self, shape: int, pods: int, where: Domain) -> Domain:
        for level in range(self._nodes, where.level, -1):
            found = next(self._best(((shape, pods),), where, level), None)
            if found is not None:
                return found
        return where

    def _divided(self, shape: int, pods: int, where: Domain, level: int) -> list[tuple[Domain, int]]:
        """*pods* over domains of *level*, or narrower ones: the fewest, and if that costs none more, near each other."""
        straight = self._largest(shape, pods, where, level)
        if level == where.level + 1:
            return straight
        stepwise: list[tuple[Domain, int]] = []
        for domain, part in self._largest(shape, pods, where, where.level + 1):
            if part == self._capacity.holds(shape, domain):
                stepwise += self._brim(shape, domain, level)
                continue
            inner = self._narrowed(shape, part, domain)
            stepwise += [(inner, part)] if inner.level >= level else self._divided(shape, part, inner, level)
        return stepwise if len(stepwise) <= len(straight) else straight

    def _brim(self, shape: int, where: Domain, level: int) -> list[tuple[Domain, int]]:
        """All that *where* holds, over its domains of *level*."""
        first, counts = self._capacity.level(shape, where, level)
        return [(self._topology.domain(level, first + at), int(counts[at])) for at in np.flatnonzero(counts).tolist()]

    def _largest(self, shape: int, pods: int, where: Domain, level: int) -> list[tuple[Domain, int]]:
        """The roomiest domains first until the rest fits into one: that one is the tightest that holds it."""
        first, counts = self._capacity.level(shape, where, level)
        order = np.argsort(-counts, kind="stable")
        sums = np.cumsum(counts[order])
        full = int(np.searchsorted(sums, pods))
        left = pods - (int(sums[full - 1]) if full else 0)
        enough = order[full:][counts[order[full:]] >= left]
        last = int(enough[np.argmin(counts[enough])])
        pieces = [(self._topology.domain(level, first + int(at)), int(counts[at])) for at in order[:full]]
        return [*pieces, (self._topology.domain(level, first + last), left)]

    def _put(self, need: Demand, shape: int, node: int, pods: int) -> None:
        self.puts.append(PodPlacement(need, shape, node, pods))
        if not self._single:
            self._capacity.put(node, shape, pods)
            self._stand(node, 1)

    # ------------------------------------------------------------ the order of domains

    def _best(self, demand: ShapeCounts, where: Domain, level: int) -> Iterator[Domain]:
        """The domains of *level* inside *where* that may take all of *demand*, in the order in which they are to be tried."""
        able = None
        first = 0
        for shape, pods in demand:
            first, counts = self._capacity.level(shape, where, level)
            able = counts >= pods if able is None else able & (counts >= pods)
        if able is None:
            able = np.ones(self._topology.inside(where, level)[1] - first, dtype=np.bool_)
        found = np.flatnonzero(able) + first
        if not len(found):
            return
        shape, pods = demand[0] if demand else (0, 0)
        least = self._least_pieces(shape, pods, where, level)
        ats = self._tightest(shape, found, where, level)
        if not self._single:
            # What stands already comes first among equals, so that nothing behind it need be looked at.
            standing = [at for at in ats if self._stands.get((level, at))]
            ats = [*standing, *(at for at in ats if at not in standing)] if standing else ats
        later = []
        for order, at in enumerate(ats):
            domain = self._topology.domain(level, at)
            pieces = self._pieces(shape, pods, domain)
            if pieces == least:
                yield domain
            else:
                later.append((pieces, order, domain))
        yield from (domain for _, _, domain in sorted(later)[:MOST_TRIED])

    def _tightest(self, shape: int, found: Ints, where: Domain, level: int) -> list[int]:
        """Those with the least room; among equals those in the tightest domain around them, then in order of labels and names."""
        levels = self._capacity.counts(shape).levels
        starts = self._topology.starts[level]
        keys: list[Ints] = []
        cut = False
        for each in range(level, where.level, -1):
            counts = levels[each][self._topology.of[each][starts[found]]]
            if len(found) > MOST_COMPARED and not cut:
                least = counts == counts.min()
                if np.count_nonzero(least) < MOST_COMPARED:
                    cut = True
                    least = counts <= np.partition(counts, MOST_COMPARED - 1)[MOST_COMPARED - 1]
                found, counts, keys = found[least], counts[least], [key[least] for key in keys]
            keys.append(counts)
        order = np.lexsort(keys[::-1])[:MOST_COMPARED]
        found_in_order: list[int] = found[order].tolist()
        return found_in_order

    def _least_pieces(self, shape: int, pods: int, where: Domain, level: int) -> int:
        """No domain of *level* inside *where* needs fewer pieces."""
        if level == self._nodes:
            return 1
        _, counts = self._capacity.level(shape, where, level + 1)
        largest = int(counts.max(initial=0))
        return 1 if largest >= pods else -(-pods // largest)

    def _pieces(self, shape: int, pods: int, domain: Domain) -> int:
        """Into how many domains of the next level *pods* would be divided."""
        if domain.last - domain.first == 1:
            return 1
        _, counts = self._capacity.level(shape, domain, domain.level + 1)
        largest = int(counts.max(initial=0))
        if largest >= pods:
            return 1
        return int(np.searchsorted(np.cumsum(np.sort(counts)[::-1]), pods)) + 1
