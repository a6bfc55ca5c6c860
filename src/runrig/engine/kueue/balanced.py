"""Balanced placement: a preferred request spread evenly over as few domains as take it (the gate TASBalancedPlacement).

All of it stands under one domain of the level above.  With T the largest least load per domain used: the parent with the largest T,
then with the fewest domains of the preferred level; domains that cannot carry T are left out; of the rest the fewest that are
enough, and of as few the tightest.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from runrig.engine.kueue.fit_counts import DomainShare, PodSetFitCounts, PodSetRequest
from runrig.engine.kueue.node_tree import NodeDomain, NodeTree

MOST_STEPS = 100_000
"""Items times domains, up to which the tightest set is looked for; beyond, the largest are taken."""


class _Size(NamedTuple):
    """*plain*: slices that fit; *beside*: the same beside a leader, None where no leader fits."""

    domain: NodeDomain
    plain: int
    beside: int | None


def balanced(tree: NodeTree, ask: PodSetRequest, counts: PodSetFitCounts) -> tuple[int, list[DomainShare] | None]:
    """(the level, what each of its domains gets); None if nothing can be spread like that."""
    level = min(ask.level + 1, ask.slice_level)
    parents = _groups(tree, ask.level)
    best: tuple[int, int, list[_Size]] | None = None
    for domains in parents:
        found = _under(domains, ask, counts, deeper=level > ask.level)
        if found is not None and (best is None or (-found[0], found[1]) < (-best[0], best[1])):
            best = found
    if best is None:
        return level, None
    return level, _spread(best[2], ask.slices, ask.leader is not None)


def _groups(tree: NodeTree, level: int) -> list[list[NodeDomain]]:
    """The domains of *level* by parent; all of them if it is the topmost."""
    domains = tree.by_level[level]
    if not level:
        return [domains]
    return [list(members) for _, members in groupby(domains, key=lambda each: each.values[:level])]


def _under(
    domains: Sequence[NodeDomain], ask: PodSetRequest, counts: PodSetFitCounts, *, deeper: bool
) -> tuple[int, int, list[_Size]] | None:
    """(T, how many of *domains* are used, the chosen domains one level deeper, or of *domains* themselves)."""
    leads, need = ask.leader is not None, ask.slices
    below = {each: [_size(child, counts, leads) for child in (each.children if deeper else [each])] for each in domains}
    least = _threshold([size for sizes in below.values() for size in sizes], need, leads)
    if not least:
        return None
    kept = {each: [_carrying(size, least) for size in sizes if size.plain >= least] for each, sizes in below.items()}
    kept = {each: sizes for each, sizes in kept.items() if sizes}
    used = _tightest([_sum(each, kept[each]) for each in sorted(kept, key=lambda each: -len(kept[each]))], need, leads)
    if used is None:
        return None
    chosen = _tightest([size for each in domains for size in kept.get(each, ()) if each in used], need, leads)
    if chosen is None:
        return None
    sizes = {size.domain: size for each in used for size in kept[each]}
    return least, len(used), [_Size(each, *sizes[each][1:]) for each in chosen]


def _size(domain: NodeDomain, counts: PodSetFitCounts, leads: bool) -> _Size:
    able = leads and counts.lead[domain.at]
    return _Size(domain, counts.units[domain.at], counts.units_beside[domain.at] if able else None)


def _carrying(size: _Size, least: int) -> _Size:
    """*size* without the leader, if it could not carry *least* beside one."""
    return size if (size.beside or 0) >= least else size._replace(beside=None)


def _sum(domain: NodeDomain, sizes: Sequence[_Size]) -> _Size:
    total = sum(each.plain for each in sizes)
    costs = [each.plain - each.beside for each in sizes if each.beside is not None]
    return _Size(domain, total, total - min(costs) if costs else None)


def _threshold(sizes: Sequence[_Size], need: int, leads: bool) -> int:
    """T: the largest least load per domain; 0 if it does not fit at all."""
    if not leads:
        return _least_load(sorted((each.plain for each in sizes), reverse=True), need)
    best = 0
    tried = set()
    for at, each in enumerate(sizes):
        if each.beside is None or (each.plain, each.beside) in tried:
            continue
        tried.add((each.plain, each.beside))
        loads = [other.plain for number, other in enumerate(sizes) if number != at]
        best = max(best, _least_load(sorted([*loads, each.beside], reverse=True), need))
    return best


def _least_load(loads: Sequence[int], need: int) -> int:
    total = 0
    for number, load in enumerate(loads, start=1):
        total += load
        if total >= need:
            return min(load, need // number)
    return 0


def _tightest(sizes: Sequence[_Size], need: int, leads: bool) -> list[NodeDomain] | None:
    """The fewest domains that take *need*, and the leader; of as few those with the least room.  The smaller, then the first, of equals.

    Sets of sums as bits of a number: bit s of reach[k][led] says that k of the items seen so far have room for s together.
    """
    most = _fewest(sizes, need, leads)
    if most is None:
        return None
    sizes = sorted(sizes, key=lambda each: each.plain)
    if len(sizes) * most > MOST_STEPS:
        sizes = sorted(sizes, key=lambda each: -each.plain)[: max(most, MOST_STEPS // most)]
    for number in range(most, len(sizes) + 1):
        found = _exactly(sizes, number, need, leads)
        if found is not None:
            return found
    return None


def _fewest(sizes: Sequence[_Size], need: int, leads: bool) -> int | None:
    """So many are needed at least; None if all together are too few."""
    total = sum(each.plain for each in sizes)
    if leads:
        costs = [each.plain - each.beside for each in sizes if each.beside is not None]
        if not costs or total - min(costs) < need:
            return None
    elif total < need:
        return None
    left, number = need, 0
    for load in sorted((each.plain for each in sizes), reverse=True):
        if left <= 0:
            break
        left, number = left - load, number + 1
    return max(number, 1)


def _exactly(sizes: Sequence[_Size], number: int, need: int, leads: bool) -> list[NodeDomain] | None:
    empty = [[0, 0] for _ in range(number + 1)]
    empty[0][0] = 1
    layers = [empty]
    for each in reversed(sizes):
        before = layers[-1]
        after = [row[:] for row in before]
        for k in range(1, number + 1):
            after[k][0] |= before[k - 1][0] << each.plain
            after[k][1] |= before[k - 1][1] << each.plain
            if each.beside is not None:
                after[k][1] |= before[k - 1][0] << each.beside
        layers.append(after)
    enough = layers[-1][number][leads] >> need
    if not enough:
        return None
    total = need + (enough & -enough).bit_length() - 1
    chosen: list[NodeDomain] = []
    led = leads
    for each, before in zip(sizes, reversed(layers[:-1]), strict=True):
        k = number - len(chosen)
        if k and led and each.beside is not None and _reaches(before[k - 1][0], total - each.beside):
            total, led = total - each.beside, False
        elif k and _reaches(before[k - 1][led], total - each.plain):
            total -= each.plain
        else:
            continue
        chosen.append(each.domain)
    return chosen


def _reaches(bits: int, total: int) -> bool:
    return total >= 0 and bool(bits >> total & 1)


def _spread(sizes: list[_Size], need: int, leads: bool) -> list[DomainShare]:
    """Each gets the same, as far as it has room; what is left over goes to those with more."""
    leader: NodeDomain | None = None
    if leads:
        able = [each for each in sizes if each.beside is not None]
        total = sum(each.plain for each in sizes)
        fits = [each for each in able if total - each.plain + (each.beside or 0) >= need]
        leader = min(fits, key=lambda each: (each.plain - (each.beside or 0), each.plain)).domain
    room = {each.domain: (each.beside or 0) if each.domain is leader else each.plain for each in sizes}
    shares = []
    left, others = need, len(room)
    last_first = list(room)[::-1]
    for domain in sorted(last_first, key=room.__getitem__):
        amount = min(room[domain], left // others)
        shares.append(DomainShare(domain, amount, domain is leader))
        left, others = left - amount, others - 1
    assert not left, "the chosen domains take everything"
    return [each for each in shares if each.amount or each.leads]
