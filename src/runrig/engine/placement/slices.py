"""Places equal slices of one gang, each in any of several domains, on plain numbers (rule T2).

The result is the same as from `BestFit.put` for one slice after the other: each slice makes its domain tighter for the next.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import pairwise

MOST_COMPARED = 32
"""Maximum number of domains of one level, tightest first, that are compared by the number of finer domains (or nodes) they use."""

MOST_TRIED = 6
"""Maximum number of domains of one level that are tried for one need, in addition to those with the fewest pieces."""

Slice = list[tuple[int, int]]
"""(node, pods), each node once."""


class Slices:
    """Domains that consist of nodes, while slices of *pods* pods are placed in them.

    *part*: each slice consists of parts of this many pods, each on one node; None: on any nodes of its domain.
    *free*: how many pods fit, per node. *starts*: the first node of each domain, and the end; a domain has at most
    MOST_COMPARED nodes. *held_domains*, *held_nodes*: those that already contain pods of the gang.
    """

    def __init__(
        self,
        pods: int,
        part: int | None,
        free: list[int],
        starts: Sequence[int],
        held_domains: Sequence[int],
        held_nodes: Sequence[int],
    ) -> None:
        self._pods = pods
        self._part = part
        self._free = free
        self._nodes = [range(first, last) for first, last in pairwise(starts)]
        self._room = [sum(free[nodes.start : nodes.stop]) for nodes in self._nodes]
        self._order = sorted((room, at) for at, room in enumerate(self._room) if room >= pods)
        self._unused_domains = [True] * len(self._nodes)
        self._unused_nodes = [True] * len(free)
        for at in held_domains:
            self._unused_domains[at] = False
        for node in held_nodes:
            self._unused_nodes[node] = False
        self._largest = max(free, default=0)
        self._pieces = [0] * len(self._nodes)  # 0: not computed yet

    def put(self) -> Slice | None:
        """Places one more slice; None if it does not fit."""
        for at in self._best_first():
            taken = self._spread(at) if self._part is None else self._in_parts(at, self._part)
            if taken is not None:
                self._take(at, taken)
                return taken
        return None

    def _take(self, at: int, taken: Slice) -> None:
        for node, pods in taken:
            self._free[node] -= pods
            self._unused_nodes[node] = False
        self._order.remove((self._room[at], at))
        self._room[at] -= self._pods
        if self._room[at] >= self._pods:
            insort(self._order, (self._room[at], at))
        self._unused_domains[at] = False
        self._pieces[at] = 0

    def _best_first(self) -> Iterator[int]:
        """Yields the domains to try: fewest pieces, then those that contain pods of the gang, then the tightest."""
        order = [at for _, at in self._order[:MOST_COMPARED]]
        order.sort(key=self._unused_domains.__getitem__)
        if self._largest not in self._free:
            self._largest = max(self._free)
        least = -(-self._pods // self._largest) if order else 0
        later = []
        for place, at in enumerate(order):
            pieces = self._pieces[at] or self._count_pieces(at)
            if pieces == least:
                yield at
            else:
                later.append((pieces, place, at))
        yield from (at for _, _, at in sorted(later)[:MOST_TRIED])

    def _count_pieces(self, at: int) -> int:
        """The number of nodes over which a slice would be divided."""
        nodes, left, pieces = self._nodes[at], self._pods, 0
        for free in sorted(self._free[nodes.start : nodes.stop], reverse=True):
            pieces += 1
            left -= free
            if left <= 0:
                break
        self._pieces[at] = pieces
        return pieces

    def _spread(self, at: int) -> Slice:
        """Uses one node if it has room for all; otherwise the roomiest nodes, and for the rest the tightest that holds it."""
        free, left = self._free, self._pods
        if self._room[at] == left:
            return [(node, free[node]) for node in self._nodes[at] if free[node]]
        taken: Slice = []
        roomiest = sorted(self._nodes[at], key=free.__getitem__, reverse=True)
        for place, node in enumerate(roomiest):
            if free[node] >= left:
                able = [other for other in roomiest[place:] if free[other] >= left]
                if not taken:  # a node that takes the whole slice is chosen like a domain
                    able = [other for other in able if not self._unused_nodes[other]] or able
                return [*taken, (min(able, key=free.__getitem__), left)]
            taken.append((node, free[node]))
            left -= free[node]
        raise AssertionError("a domain that is tried has room")

    def _in_parts(self, at: int, part: int) -> Slice | None:
        """Each part makes its node tighter, so nodes are filled one after the other, those with pods of the gang first."""
        free = self._free
        nodes = [node for node in self._nodes[at] if free[node] >= part]
        nodes.sort(key=free.__getitem__)
        nodes.sort(key=self._unused_nodes.__getitem__)
        taken: Slice = []
        left = self._pods // part
        for node in nodes:
            parts = min(free[node] // part, left)
            taken.append((node, parts * part))
            left -= parts
            if not left:
                return taken
        return None
