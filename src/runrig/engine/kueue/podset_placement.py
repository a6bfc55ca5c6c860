"""Where the pods of a pod set go: one level is chosen, then from there down as few domains as the packing needs.

Best fit (required, preferred): the tightest domain that takes all, else the largest first and the tightest that takes the rest.
Least free (everything else, and inside a slice, as in Kueue): the smallest domains first.
Between equals: fewer pods fit, then level values in order of text.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from runrig.domain.kueue import TopologyMode
from runrig.engine.kueue.balanced import balanced
from runrig.engine.kueue.fit_counts import DomainShare, PodSetFitCounts, PodSetRequest
from runrig.engine.kueue.node_tree import NodeDomain, NodeTree


class Misfit(NamedTuple):
    """It does not fit: *have* of *need* pods would."""

    have: int
    need: int


Placing = tuple[tuple[NodeDomain, int, bool], ...]
"""(leaf, pods, with the leader), by level values."""


def place_pod_set(
    tree: NodeTree, ask: PodSetRequest, counts: PodSetFitCounts, *, least_free: bool, even: bool
) -> Placing | Misfit:
    """Leaves for all pods of *ask*, or what is missing.  *even*: preferred requests are spread evenly where that works."""
    if ask.count % ask.slice_size or ask.slice_level < ask.level:
        return Misfit(0, ask.count)
    search = _Search(tree, ask, counts, least_free)
    found: Sequence[DomainShare] | None = None
    level, by_parent = ask.level, False
    if even and ask.topology.near is TopologyMode.PREFERRED and not ask.inner:
        level, found = balanced(tree, ask, counts)
        by_parent = found is not None
    if found is None:
        level, found = search.level()
    if found is None:
        return Misfit(search.most(), ask.count)
    shares = search.down(level, found, by_parent=by_parent)
    return tuple((each.domain, each.amount, each.leads) for each in sorted(shares, key=lambda each: each.domain.values))


class _Search:
    def __init__(self, tree: NodeTree, ask: PodSetRequest, counts: PodSetFitCounts, least_free: bool) -> None:
        self._tree = tree
        self._ask = ask
        self._counts = counts
        self._least_free = least_free
        self._small_first = least_free
        self._led = ask.leader is not None

    # ------------------------------------------------------------ which level

    def level(self) -> tuple[int, list[DomainShare] | None]:
        """(the level, its domains with their slices); None if it does not fit."""
        ask, level = self._ask, self._ask.level
        required = ask.topology.near is TopologyMode.REQUIRED
        climbs = ask.topology.near is TopologyMode.PREFERRED
        while True:
            ordered = self._ordered(self._tree.by_level[level], self._counts.units_beside)
            one = self._single(ordered, required=required)
            if one is not None:
                return level, [DomainShare(one, ask.slices, self._led)]
            if required:
                return level, None
            if not climbs or not level:
                return level, self._greedy(
                    ordered, ask.slices, self._led, self._counts.units, self._counts.units_beside
                )
            level -= 1

    def _single(self, ordered: Sequence[NodeDomain], *, required: bool) -> NodeDomain | None:
        """The tightest of *ordered* that takes everything.

        Preferred affinity comes before packing: where a domain with more of it is too small, one that is large enough is no
        answer, unless the pods must be in one domain.
        """
        units, lead, score = self._counts.units_beside, self._counts.lead, self._counts.score
        fitting = [each for each in ordered if units[each.at] >= self._ask.slices and (not self._led or lead[each.at])]
        if not fitting:
            return None
        best = max(score[each.at] for each in fitting)
        if not required and not self._least_free and any(score[each.at] > best for each in ordered[:1]):
            return None
        return min((each for each in fitting if score[each.at] == best), key=lambda each: units[each.at])

    def most(self) -> int:
        """Pods that would fit: in the best domain if they must be in one, else in all."""
        counts = self._counts
        units = [counts.units_beside[each.at] for each in self._tree.by_level[self._ask.level]]
        fitting = max(units, default=0) if self._ask.topology.near is TopologyMode.REQUIRED else sum(units)
        return min(fitting * self._ask.slice_size, self._ask.count)

    # ------------------------------------------------------------ from there down

    def down(self, level: int, found: Iterable[DomainShare], *, by_parent: bool) -> list[DomainShare]:
        """Pods per leaf.  Above the slices the children of all domains count as one pool, unless *by_parent*; below never."""
        counts, ask = self._counts, self._ask
        shares = list(found)
        lowest = len(self._tree.levels) - 1
        while level < ask.slice_level:
            if by_parent:
                shares = [part for each in shares for part in self._within(each, counts.units, counts.units_beside)]
            else:
                pool = [child for each in shares for child in each.domain.children]
                shares = self._needed(pool, ask.slices, self._led, counts.units, counts.units_beside)
            level += 1
        shares = [DomainShare(each.domain, each.amount * ask.slice_size, each.leads) for each in shares]
        self._small_first = True
        while level < lowest:
            inner = ask.inner.get(level + 1, 1)
            shares = [part for each in shares for part in self._within(each, counts.pods, counts.beside, inner)]
            level += 1
        return shares

    def _within(
        self, share: DomainShare, plain: Sequence[int], beside: Sequence[int], unit: int = 1
    ) -> list[DomainShare]:
        """*share* over the children of its domain, in multiples of *unit*."""
        if unit > 1:
            plain, beside = [each // unit for each in plain], [each // unit for each in beside]
        parts = self._needed(share.domain.children, share.amount // unit, share.leads, plain, beside)
        return [DomainShare(each.domain, each.amount * unit, each.leads) for each in parts]

    def _needed(
        self, pool: Sequence[NodeDomain], need: int, leads: bool, plain: Sequence[int], beside: Sequence[int]
    ) -> list[DomainShare]:
        found = self._greedy(self._ordered(pool, beside if leads else plain), need, leads, plain, beside)
        assert found is not None, "what fits into a domain fits into its children"
        return found

    # ------------------------------------------------------------ one step

    def _ordered(self, domains: Iterable[NodeDomain], sizes: Sequence[int]) -> list[NodeDomain]:
        """Preferred nodes first; then the largest, or the smallest, first; those that can have the leader before the others."""
        counts, sign = self._counts, 1 if self._small_first else -1
        lead, score, pods = counts.lead, counts.score, counts.beside if self._led else counts.pods
        return sorted(
            domains,
            key=lambda each: (
                not lead[each.at],
                -score[each.at],
                sign * sizes[each.at],
                pods[each.at],
                each.values,
            ),
        )

    def _greedy(
        self, ordered: list[NodeDomain], need: int, leads: bool, plain: Sequence[int], beside: Sequence[int]
    ) -> list[DomainShare] | None:
        """Takes of *ordered* until *need* is covered; the last one is the tightest that covers the rest."""
        found: list[DomainShare] = []
        if leads:
            first = self._leader(ordered, need, plain, beside)
            if first is None:
                return None
            found.append(DomainShare(first, min(need, beside[first.at]), True))
            need -= found[0].amount
            ordered = self._ordered([each for each in ordered if each is not first], plain)
        for at, domain in enumerate(ordered):
            if not need:
                break
            size = plain[domain.at]
            if not size:
                continue
            if size >= need and not self._small_first:
                domain = self._tightest(ordered[at:], need, lambda each: plain[each.at])
                size = plain[domain.at]
            found.append(DomainShare(domain, min(size, need), False))
            need -= found[-1].amount
        return found if not need else None

    def _leader(
        self, ordered: Sequence[NodeDomain], need: int, plain: Sequence[int], beside: Sequence[int]
    ) -> NodeDomain | None:
        """Where the leader goes: where everything fits beside it, else where it leaves enough for the others."""
        able = [each for each in ordered if self._counts.lead[each.at]]
        whole = [each for each in able if beside[each.at] >= need]
        if whole:
            return self._tightest(whole, need, lambda each: beside[each.at])
        total = sum(plain[each.at] for each in ordered)
        return next((each for each in able if total - plain[each.at] + beside[each.at] >= need), None)

    def _tightest(self, ordered: Sequence[NodeDomain], need: int, size: Callable[[NodeDomain], int]) -> NodeDomain:
        """Of those with as much preferred affinity as the first that is large enough."""
        fitting = [each for each in ordered if size(each) >= need]
        score = self._counts.score
        return min((each for each in fitting if score[each.at] == score[fitting[0].at]), key=size)
