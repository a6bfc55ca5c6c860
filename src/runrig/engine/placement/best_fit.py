"""Best fit: the narrowest domain that works, then the fewest domains, then the tightest (rule T2).

Places the largest needs first, each in its best domain, and tries a few other domains if that leaves no room for later needs.
If it finds nothing, `exact_search.py` decides whether a placement exists.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat

import numpy as np

from runrig.engine.nodes.topology import ROOT, Domain, Ints
from runrig.engine.placement.demand import Demand, PodPlacement, ShapeCounts, is_best, score_of
from runrig.engine.placement.packing import pack
from runrig.engine.placement.slices import MOST_COMPARED, MOST_TRIED, Slices
from runrig.engine.placement.trial_capacity import PlacedPods, TrialCapacity

SMALL = 32
"""Largest domain, in nodes, in which pods of several shapes are packed exactly if the simple way fails."""

MOST_COPIED = 256
"""Maximum number of nodes per slice for placing equal slices together; with more, copying costs more than it saves."""

PACKING_STEPS = 500
"""Step limit of one such packing (see `pack`)."""

FEW = 128
"""Largest placement, in shares, for which a second attempt is worth its time."""

Piece = tuple[int, int, int]
"""(level, index of the domain in it, pods)."""


def nearest(
    capacity: TrialCapacity, root: Demand, whole: Domain, fixed_domains: Mapping[int, Domain]
) -> Sequence[PodPlacement] | None:
    """Best fit with the largest needs first and, if that misses a preference, also with the smallest first; the better score wins."""
    attempt = BestFit(capacity, root, fixed_domains)
    placements = list(attempt.placements) if attempt.put(root, whole) else None
    if len(root.demand) == 1 and len({(leaf.level, leaf.demand) for leaf in root.leaves}) == 1:
        return placements  # all needs are equal, so there is only one order
    score = None if placements is None else score_of(capacity.topology, root, placements)
    if score is not None and (is_best(root, score) or sum(len(each.nodes) for each in placements or ()) > FEW):
        return placements
    attempt.undo()
    other = BestFit(capacity, root, fixed_domains, small_first=True)
    if other.put(root, whole) and (score is None or score_of(capacity.topology, root, other.placements) < score):
        placements = list(other.placements)
    other.undo()
    return placements


class BestFit:
    """One attempt to place a gang. *placements*: what it has placed so far.

    *fixed_domains*: id(need) → the only domain that this need may use.
    """

    def __init__(
        self, capacity: TrialCapacity, root: Demand, fixed_domains: Mapping[int, Domain], *, small_first: bool = False
    ) -> None:
        self._capacity = capacity
        self._topology = capacity.topology
        self._nodes = capacity.topology.single_level
        # What is placed last need not be charged: all pods, if they are one leaf of one shape, or equal slices.
        self._innermost = root.innermost
        self._single = len(root.demand) == 1 and not self._innermost.parts
        self._fixed_domains = fixed_domains
        self._small_first = small_first
        self._placed_in: list[dict[int, int]] = [defaultdict(int) for _ in range(self._nodes + 1)]
        self._pieces_known: dict[tuple[int, int], dict[tuple[int, int], int]] = defaultdict(dict)
        self._puts: list[PlacedPods] = []
        self.placements: list[PodPlacement] = []

    def put(self, need: Demand, outer: Domain) -> bool:
        """Places all of *need* inside *outer*. Returns False and changes nothing if it does not fit."""
        for domain in self._domains_to_try(need, outer):
            mark = self._mark()
            if self._fill(need, domain):
                return True
            self._undo_to(mark)
        return False

    def undo(self) -> None:
        self._undo_to((0, 0))

    def _mark(self) -> tuple[int, int]:
        return len(self.placements), len(self._puts)

    def _undo_to(self, mark: tuple[int, int]) -> None:
        placements, puts = mark
        del self.placements[placements:]
        while len(self._puts) > puts:
            put = self._puts.pop()
            self._capacity.take_back(put)
            self._note(put, -1)

    def _note(self, put: PlacedPods, sign: int) -> None:
        """Counts the pods placed per domain, and drops cached values of these domains."""
        for level, (of, placed_in) in enumerate(zip(self._topology.of, self._placed_in, strict=False)):
            inside = level <= put.domain.level
            for at in (int(of[put.domain.first]),) if inside else of[put.nodes].tolist():
                placed_in[at] += sign
                self._pieces_known.pop((level, at), None)

    def _domains_to_try(self, need: Demand, outer: Domain) -> Iterator[Domain]:
        """Yields the domains to try: those of the requested level; for a preference also coarser ones, up to *outer* itself."""
        fixed_domain = self._fixed_domains.get(id(need))
        if fixed_domain is not None:
            yield fixed_domain
            return
        if need.level > outer.level:
            coarsest = need.level if need.required else outer.level + 1
            for level in range(need.level, coarsest - 1, -1):
                yield from self._best_first(need.demand, outer, level)
        if need.level <= outer.level or not need.required:
            yield outer

    def _fill(self, need: Demand, domain: Domain) -> bool:
        if need.parts:
            placed = self._put_slices(need, domain)
            return all(self.put(part, domain) for part in self._parts(need)) if placed is None else placed
        spread = need.level if need.level > ROOT and not need.required else self._topology.finest
        if len(need.demand) == 1:
            return self._spread(need, *need.demand[0], domain, spread)
        return self._mixed(need, domain, spread)

    def _parts(self, need: Demand) -> list[Demand]:
        return sorted(need.parts, key=lambda part: part.size, reverse=self._small_first)

    def _put_slices(self, need: Demand, outer: Domain) -> bool | None:
        """Places the equal slices of *need* inside *outer* like `put` one by one. None: they must be placed one by one."""
        room = self._room_for_slices(need, outer)
        if room is None:
            return None
        ((shape, _),) = need.demand
        totals: dict[int, int] = defaultdict(int)
        for part in [need] if outer.level == self._nodes - 1 else self._parts(need):
            taken = room.put()
            if taken is None:
                return False
            nodes = [outer.first + node for node, _ in taken]
            pods = [pods for _, pods in taken]
            self.placements.append(PodPlacement(part, shape, nodes, pods))
            if need is not self._innermost:
                for node, more in zip(nodes, pods, strict=True):
                    totals[node] += more
        if totals:
            self._charge(PlacedPods(outer, shape, list(totals), list(totals.values())))
        return True

    def _room_for_slices(self, need: Demand, outer: Domain) -> Slices | None:
        """The room for the slices of *need* in the domains of *outer*; None if they cannot be placed together."""
        levels = [level for level, _ in need.slices]
        finer = list(range(outer.level + 1, self._nodes + 1))
        if not levels or levels != finer[: len(levels)] or len(finer) > 2 or self._fixed_domains:
            return None
        if outer.last - outer.first > MOST_COPIED * len(need.parts):
            return None
        above = self._nodes - 1
        starts, held = [outer.first, outer.last], []
        pods = need.demand[0][1]
        if outer.level < above:
            domains = range(*self._topology.inside(outer, above))
            starts = self._topology.starts[above][domains.start : domains.stop + 1].tolist()
            held = self._held(above, domains)
            pods = need.slices[0][1]
        if max(last - first for first, last in pairwise(starts)) > MOST_COMPARED:
            return None
        part = need.slices[-1][1] if levels[-1] == self._nodes else None
        free = self._capacity.level(need.demand[0][0], outer, self._nodes)[1].tolist()
        starts = [start - outer.first for start in starts]
        return Slices(pods, part, free, starts, held, self._held(self._nodes, range(outer.first, outer.last)))

    def _held(self, level: int, domains: range) -> list[int]:
        """The indices, within *domains*, of those that contain pods of the gang."""
        return [at - domains.start for at, pods in self._placed_in[level].items() if pods and at in domains]

    # ------------------------------------------------------------ unlike pods

    def _mixed(self, need: Demand, outer: Domain, spread: int) -> bool:
        """Places pods of several shapes together in the narrowest domain with room for all."""
        for level in range(self._nodes, outer.level, -1):
            for domain in self._best_first(need.demand, outer, level):
                if self._together(need, domain, spread):
                    return True
        return self._piece_by_piece(need, outer, spread) or self._together(need, outer, spread)

    def _piece_by_piece(self, need: Demand, outer: Domain, level: int) -> bool:
        """Spreads the pods over the fewest domains of *level*: the next one takes all remaining pods, otherwise as many as possible."""
        if level <= outer.level:
            return False
        mark = self._mark()
        left = dict(need.demand)
        while left:
            domain = self._fullest(left, outer, level)
            before = sum(left.values())
            for shape in sorted(left):
                part = min(left[shape], self._capacity.holds(shape, domain))
                if part:
                    self._spread(need, shape, part, domain, self._nodes)
                left[shape] -= part
            left = {shape: pods for shape, pods in left.items() if pods}
            if sum(left.values()) == before:
                self._undo_to(mark)
                return False
        return True

    def _fullest(self, left: Mapping[int, int], outer: Domain, level: int) -> Domain:
        whole = next(self._best_first(tuple(sorted(left.items())), outer, level), None)
        if whole is not None:
            return whole
        first, _ = self._topology.inside(outer, level)
        fitting = [
            np.minimum(self._capacity.level(shape, outer, level)[1], pods) for shape, pods in sorted(left.items())
        ]
        # The hardest shape decides; the others only break ties.
        order = np.lexsort([-counts for counts in reversed(fitting)])
        return self._topology.domain(level, first + int(order[0]))

    def _together(self, need: Demand, domain: Domain, spread: int) -> bool:
        if domain.level == self._nodes:
            if not self._capacity.fits(domain.first, need.demand):
                return False
            for shape, pods in need.demand:
                self._put(need, shape, domain, [domain.first], [pods])
            return True
        mark = self._mark()
        if all(self._spread(need, shape, pods, domain, spread) for shape, pods in need.demand):
            return True
        self._undo_to(mark)
        if domain.last - domain.first > SMALL:
            return False
        packed, _, _ = pack(self._capacity, [(shape, domain, pods) for shape, pods in need.demand], PACKING_STEPS)
        for item, node, pods in packed or ():
            self._put(need, need.demand[item][0], domain, [node], [pods])
        return packed is not None

    # ------------------------------------------------------------ pods of one shape

    def _spread(self, need: Demand, shape: int, pods: int, outer: Domain, spread: int) -> bool:
        """Places pods of one shape in the narrowest domain with room for all, over the fewest domains of level *spread*, then
        nodes.

        Returns False and changes nothing if *outer* does not have enough room.
        """
        room = self._capacity.holds(shape, outer)
        if room < pods:
            return False
        if room > pods:
            outer = self._narrowed(shape, pods, outer)
        if outer.last - outer.first == 1:
            self._put(need, shape, outer, [outer.first], [pods])
            return True
        level = spread if spread > outer.level else self._nodes
        if room == pods:
            self._put(need, shape, outer, *_columns(self._filled(shape, outer, self._nodes)))
        elif level == self._nodes:
            self._put(need, shape, outer, *_columns(self._divided(shape, pods, outer, level)))
        else:
            for at_level, at, part in self._divided(shape, pods, outer, level):
                self._spread(need, shape, part, self._topology.domain(at_level, at), spread)
        return True

    def _narrowed(self, shape: int, pods: int, outer: Domain) -> Domain:
        """The narrowest domain inside *outer* that holds all *pods*; *outer* itself if no narrower one does."""
        for level in range(self._nodes, outer.level, -1):
            domain = next(self._best_first(((shape, pods),), outer, level), None)
            if domain is not None:
                return domain
        return outer

    def _divided(self, shape: int, pods: int, outer: Domain, level: int) -> list[Piece]:
        """Divides *pods* over the fewest domains of *level* or finer ones, close to each other if that takes no more domains."""
        straight = self._largest(shape, pods, outer, level)
        if level == outer.level + 1:
            return straight
        stepwise: list[Piece] = []
        for between, at, part in self._largest(shape, pods, outer, outer.level + 1):
            domain = self._topology.domain(between, at)
            if part == self._capacity.holds(shape, domain):
                stepwise += self._filled(shape, domain, level)
                continue
            inner = self._narrowed(shape, part, domain)
            stepwise += (
                [(inner.level, inner.at, part)] if inner.level >= level else self._divided(shape, part, inner, level)
            )
        return stepwise if len(stepwise) <= len(straight) else straight

    def _filled(self, shape: int, outer: Domain, level: int) -> list[Piece]:
        """Fills *outer*: each of its domains of *level* gets as many pods as it holds."""
        first, counts = self._capacity.level(shape, outer, level)
        (held,) = counts.nonzero()
        return list(zip(repeat(level), (held + first).tolist(), counts[held].tolist(), strict=False))

    def _largest(self, shape: int, pods: int, outer: Domain, level: int) -> list[Piece]:
        """Uses the roomiest domains until the rest fits into one domain; the rest goes to the tightest domain that holds it."""
        first, counts = self._capacity.level(shape, outer, level)
        order = (-counts).argsort(kind="stable")
        ordered = counts[order]
        sums = ordered.cumsum()
        full = int(sums.searchsorted(pods))
        left = pods - (int(sums[full - 1]) if full else 0)
        enough = int(np.count_nonzero(ordered >= left))
        tightest = max(full, int(np.count_nonzero(ordered > ordered[enough - 1])))
        taken = zip(repeat(level), (order[:full] + first).tolist(), ordered[:full].tolist(), strict=False)
        return [*taken, (level, first + int(order[tightest]), left)]

    def _put(self, need: Demand, shape: int, domain: Domain, nodes: list[int], pods: list[int]) -> None:
        """Puts *pods[i]* pods on *nodes[i]*, all inside *domain*."""
        self.placements.append(PodPlacement(need, shape, nodes, pods))
        if not self._single:
            self._charge(PlacedPods(domain, shape, nodes, pods))

    def _charge(self, put: PlacedPods) -> None:
        self._capacity.put(put)
        self._puts.append(put)
        self._note(put, 1)

    # ------------------------------------------------------------ the order of domains

    def _best_first(self, demand: ShapeCounts, outer: Domain, level: int) -> Iterator[Domain]:
        """Yields the domains of *level* inside *outer* that may hold all of *demand*, in the order to try them.

        Each shape is counted alone, so several shapes together may still not fit.
        """
        able = None
        first = 0
        for shape, pods in demand:
            first, counts = self._capacity.level(shape, outer, level)
            able = counts >= pods if able is None else able & (counts >= pods)
        if able is None:
            able = np.ones(self._topology.inside(outer, level)[1] - first, dtype=np.bool_)
        domains = able.nonzero()[0] + first
        if not len(domains):
            return
        shape, pods = demand[0] if demand else (0, 0)
        least = self._least_pieces(shape, pods, outer, level)
        indices = self._tightest(shape, domains, outer, level)
        if not self._single:
            # Among equals, domains that already contain pods of the gang come first.
            placed_in = self._placed_in[level]
            occupied = [index for index in indices if placed_in.get(index)]
            indices = [*occupied, *(index for index in indices if index not in occupied)] if occupied else indices
        later = []
        for order, index in enumerate(indices):
            domain = self._topology.domain(level, index)
            pieces = self._pieces(shape, pods, domain)
            if pieces == least:
                yield domain
            else:
                later.append((pieces, order, domain))
        yield from (domain for _, _, domain in sorted(later)[:MOST_TRIED])

    def _tightest(self, shape: int, domains: Ints, outer: Domain, level: int) -> list[int]:
        """The domains with the least room, at most MOST_COMPARED. Ties: by room of the surrounding domain, then by labels and names."""
        levels = self._capacity.counts(shape).levels
        starts = self._topology.starts[level]
        keys: list[Ints] = []
        cut = False
        for coarser in range(level, outer.level, -1):
            counts = levels[coarser][domains if coarser == level else self._topology.of[coarser][starts[domains]]]
            if len(domains) > MOST_COMPARED and not cut:
                least = counts == counts.min()
                if np.count_nonzero(least) < MOST_COMPARED:
                    cut = True
                    least = counts <= np.partition(counts, MOST_COMPARED - 1)[MOST_COMPARED - 1]
                domains, counts, keys = domains[least], counts[least], [key[least] for key in keys]
            keys.append(counts)
        order = (keys[0].argsort(kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1]))[:MOST_COMPARED]
        tightest: list[int] = domains[order].tolist()
        return tightest

    def _least_pieces(self, shape: int, pods: int, outer: Domain, level: int) -> int:
        """A lower bound of `_pieces` for the domains of *level* inside *outer*."""
        if level == self._nodes:
            return 1
        _, counts = self._capacity.level(shape, outer, level + 1)
        largest = int(counts.max())
        return 1 if largest >= pods else -(-pods // largest)

    def _pieces(self, shape: int, pods: int, domain: Domain) -> int:
        """The number of domains of the next level over which *pods* would be divided."""
        if domain.last - domain.first == 1:
            return 1
        known = self._pieces_known[domain.level, domain.at]
        pieces = known.get((shape, pods))
        if pieces is None:
            ordered = self._capacity.level(shape, domain, domain.level + 1)[1].copy()
            ordered.sort()
            pieces = known[shape, pods] = int(ordered[::-1].cumsum().searchsorted(pods)) + 1
        return pieces


def _columns(pieces: Sequence[Piece]) -> tuple[list[int], list[int]]:
    """The domains of *pieces*, and the pods of each."""
    return [at for _, at, _ in pieces], [pods for _, _, pods in pieces]
