"""Greedy placement of a pod set: a level is chosen, and from there down as few domains as the packing needs.

Best fit (required, preferred): the tightest domain that holds all, otherwise the largest first, and the tightest for the rest.
Least free (everything else, and inside a slice, as in Kueue): the smallest domains first. Ties: fewer pods fit, then level
values in alphabetical order.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runrig.engine.nodes.topology import TopologyIndex
from runrig.kueue.declared import TopologyMode
from runrig.kueue.engine.balanced import balanced
from runrig.kueue.engine.podset_counts import DomainShare, PodSetCounts, PodSetRequest


class Misfit(NamedTuple):
    """It does not fit: only *have* of *need* pods would."""

    have: int
    need: int


Placing = tuple[DomainShare, ...]
"""Pods per leaf, in topology order."""


def place_pod_set(
    topology: TopologyIndex, request: PodSetRequest, counts: PodSetCounts, *, least_free: bool, even: bool
) -> Placing | Misfit:
    """Leaves for all pods of *request*, or what is missing. *even*: spread preferred requests evenly if possible."""
    if request.count % request.slice_size or request.slice_level < request.level:
        return Misfit(0, request.count)
    greedy = _Greedy(topology, request, counts, least_free)
    shares: Sequence[DomainShare] | None = None
    level, by_parent = request.level, False
    if even and request.topology.near is TopologyMode.PREFERRED and not request.inner:
        level, shares = balanced(topology, request, counts)
        by_parent = shares is not None
    if shares is None:
        level, shares = greedy.level()
    if shares is None:
        return Misfit(greedy.most(), request.count)
    return tuple(sorted(greedy.down(level, shares, by_parent=by_parent)))


class _Greedy:
    """Domains are indices of their level, as in the columns of counts."""

    def __init__(self, topology: TopologyIndex, request: PodSetRequest, counts: PodSetCounts, least_free: bool) -> None:
        self._topology = topology
        self._request = request
        self._counts = counts
        self._least_free = least_free
        self._small_first = least_free
        self._led = request.leader is not None

    # ------------------------------------------------------------ which level

    def level(self) -> tuple[int, list[DomainShare] | None]:
        """(the level, its domains with their slices); None if it does not fit."""
        request, counts, level = self._request, self._counts, self._request.level
        required = request.topology.near is TopologyMode.REQUIRED
        climbs = request.topology.near is TopologyMode.PREFERRED
        while True:
            units, units_beside = counts.units[level], counts.units_beside[level]
            ordered = self._ordered(level, range(len(units)), units_beside, led=self._led)
            one = self._single(level, ordered, required=required)
            if one is not None:
                return level, [DomainShare(one, request.slices, self._led)]
            if required:
                return level, None
            if not climbs or not level:
                return level, self._take(level, ordered, request.slices, self._led, units, units_beside)
            level -= 1

    def _single(self, level: int, ordered: Sequence[int], *, required: bool) -> int | None:
        """The tightest of *ordered* that holds everything.

        Preferred affinity comes before packing: if a domain with more affinity is too small, one that is large enough is not
        used, unless all pods must be in one domain.
        """
        counts, slices = self._counts, self._request.slices
        units, lead, score = counts.units_beside[level], counts.lead[level], counts.score[level]
        fitting = [domain for domain in ordered if units[domain] >= slices and (not self._led or lead[domain])]
        if not fitting:
            return None
        best = max(score[domain] for domain in fitting)
        if not required and not self._least_free and any(score[domain] > best for domain in ordered[:1]):
            return None
        return min((domain for domain in fitting if score[domain] == best), key=units.__getitem__)

    def most(self) -> int:
        """Pods that would fit: in the best domain if they must be in one, otherwise in all."""
        request, units = self._request, self._counts.units_beside[self._request.level]
        fitting = max(units, default=0) if request.topology.near is TopologyMode.REQUIRED else sum(units)
        return min(fitting * request.slice_size, request.count)

    # ------------------------------------------------------------ from there down

    def down(self, level: int, shares: Iterable[DomainShare], *, by_parent: bool) -> list[DomainShare]:
        """Pods per leaf. Above the slices, the children of all domains are treated as one pool, unless *by_parent*; below, never."""
        counts, request = self._counts, self._request
        lowest = len(self._topology.labels) - 1
        while level < request.slice_level:
            units, units_beside = counts.units[level + 1], counts.units_beside[level + 1]
            if by_parent:
                shares = self._within(level, shares, units, units_beside)
            else:
                children = self._topology.children[level]
                pool = [child for share in shares for child in children[share.domain]]
                shares = self._needed(level + 1, pool, request.slices, self._led, units, units_beside)
            level += 1
        shares = [DomainShare(domain, amount * request.slice_size, leads) for domain, amount, leads in shares]
        self._small_first = True
        while level < lowest:
            inner = request.inner.get(level + 1, 1)
            shares = self._within(level, shares, counts.pods[level + 1], counts.beside[level + 1], inner)
            level += 1
        return shares

    def _within(
        self, level: int, shares: Iterable[DomainShare], plain: Sequence[int], beside: Sequence[int], unit: int = 1
    ) -> list[DomainShare]:
        """Distributes each of *shares* over the children of its domain, in multiples of *unit*."""
        if unit > 1:
            plain, beside = [pods // unit for pods in plain], [pods // unit for pods in beside]
        children = self._topology.children[level]
        return [
            DomainShare(domain, amount * unit, leads)
            for share in shares
            for domain, amount, leads in self._needed(
                level + 1, children[share.domain], share.amount // unit, share.leads, plain, beside
            )
        ]

    def _needed(
        self, level: int, pool: Sequence[int], need: int, leads: bool, plain: Sequence[int], beside: Sequence[int]
    ) -> list[DomainShare]:
        shares = self._take(level, self._ordered(level, pool, plain), need, leads, plain, beside)
        assert shares is not None, "what fits into a domain fits into its children"
        return shares

    # ------------------------------------------------------------ one step

    def _ordered(self, level: int, domains: Iterable[int], sizes: Sequence[int], *, led: bool = False) -> list[int]:
        """Preferred nodes first, then the largest, or smallest, by *sizes*. *led*: before that, those that can hold the leader."""
        counts, sign = self._counts, 1 if self._small_first else -1
        lead, score, pods = counts.lead[level], counts.score[level], (counts.beside if led else counts.pods)[level]
        return sorted(
            domains,
            key=lambda domain: (
                led and not lead[domain],
                -score[domain],
                sign * sizes[domain],
                pods[domain],
                domain,
            ),
        )

    def _take(
        self, level: int, ordered: list[int], need: int, leads: bool, plain: Sequence[int], beside: Sequence[int]
    ) -> list[DomainShare] | None:
        """Uses domains of *ordered* until *need* is covered; the last one is the tightest that covers the rest."""
        shares: list[DomainShare] = []
        if leads:
            first = self._leader(level, ordered, need, plain, beside)
            if first is None:
                return None
            shares.append(DomainShare(first, min(need, beside[first]), True))
            need -= shares[0].amount
            ordered = self._ordered(level, [domain for domain in ordered if domain != first], plain)
        for place, domain in enumerate(ordered):
            if not need:
                break
            if not plain[domain]:
                continue
            if plain[domain] >= need and not self._small_first:
                domain = self._tightest(level, ordered[place:], need, plain)
            shares.append(DomainShare(domain, min(plain[domain], need), False))
            need -= shares[-1].amount
        return shares if not need else None

    def _leader(
        self, level: int, ordered: Sequence[int], need: int, plain: Sequence[int], beside: Sequence[int]
    ) -> int | None:
        """The leader's domain: the first that leaves enough for the others; if all fit next to it, the tightest such domain."""
        total = sum(plain[domain] for domain in ordered)
        able = [domain for domain in ordered if self._counts.lead[level][domain]]
        first = next((domain for domain in able if total - plain[domain] + beside[domain] >= need), None)
        if first is None or beside[first] < need or self._least_free:
            return first
        return self._tightest(level, [first, *(domain for domain in able if domain != first)], need, beside)

    def _tightest(self, level: int, ordered: Sequence[int], need: int, sizes: Sequence[int]) -> int:
        """The tightest domain that is large enough, among those with as much preferred affinity as the first of them."""
        fitting = [domain for domain in ordered if sizes[domain] >= need]
        score = self._counts.score[level]
        return min((domain for domain in fitting if score[domain] == score[fitting[0]]), key=sizes.__getitem__)
