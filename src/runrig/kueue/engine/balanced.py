"""Balanced placement: a preferred request is spread evenly over as few domains as possible (the gate TASBalancedPlacement).

All of it is placed below one domain of the level above. T is the largest possible minimum load per used domain. The parent with
the largest T is chosen, then the one with the fewest domains of the preferred level. Domains that cannot hold T are left out;
of the rest, the fewest that are enough are used, and among those the tightest.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runrig.engine.nodes.topology import TopologyIndex
from runrig.kueue.engine.podset_counts import DomainShare, PodSetCounts, PodSetRequest

MOST_STEPS = 100_000
"""Limit of items × domains for finding the tightest set; above it, the largest domains are used."""


class _Size(NamedTuple):
    """A domain and its capacity.

    *domain*: an index within its level. *plain*: slices that fit. `beside`: slices that fit next to a leader; None: no
    leader fits.
    """

    domain: int
    plain: int
    beside: int | None


def balanced(
    topology: TopologyIndex, request: PodSetRequest, counts: PodSetCounts
) -> tuple[int, list[DomainShare] | None]:
    """(the level, the share of each of its domains); None if it cannot be spread evenly."""
    level = min(request.level + 1, request.slice_level)
    leads = request.leader is not None
    sizes = [
        _Size(domain, plain, beside if leads and lead else None)
        for domain, (plain, beside, lead) in enumerate(
            zip(counts.units[level], counts.units_beside[level], counts.lead[level], strict=True)
        )
    ]
    deeper = level > request.level
    best: tuple[int, int, list[_Size]] | None = None
    for domains in _siblings(topology, request.level):
        members = {
            domain: [sizes[child] for child in topology.children[request.level][domain]] if deeper else [sizes[domain]]
            for domain in domains
        }
        found = _under(members, request.slices, leads=leads)
        if found is not None and (best is None or (-found[0], found[1]) < (-best[0], best[1])):
            best = found
    return level, None if best is None else _spread(best[2], request.slices, leads)


def _siblings(topology: TopologyIndex, level: int) -> list[range]:
    """The domains of *level* by parent; all of them together if it is the topmost level."""
    return topology.children[level - 1] if level else [range(len(topology.starts[0]) - 1)]


def _under(members: dict[int, list[_Size]], need: int, *, leads: bool) -> tuple[int, int, list[_Size]] | None:
    """(T, number of domains used, the chosen sizes). *members*: domain → what can be chosen in it."""
    least = _threshold([size for sizes in members.values() for size in sizes], need, leads)
    if not least:
        return None
    kept = {
        domain: [_carrying(size, least) for size in sizes if size.plain >= least] for domain, sizes in members.items()
    }
    kept = {domain: sizes for domain, sizes in kept.items() if sizes}
    most_members_first = sorted(kept, key=lambda domain: -len(kept[domain]))
    used = _tightest([_sum(domain, kept[domain]) for domain in most_members_first], need, leads)
    if used is None:
        return None
    chosen = _tightest([size for domain in kept if domain in used for size in kept[domain]], need, leads)
    if chosen is None:
        return None
    sizes = {size.domain: size for domain in used for size in kept[domain]}
    return least, len(used), [sizes[domain] for domain in chosen]


def _carrying(size: _Size, least: int) -> _Size:
    """*size* without a leader, if it could not hold *least* next to one."""
    return size if (size.beside or 0) >= least else size._replace(beside=None)


def _sum(domain: int, sizes: Sequence[_Size]) -> _Size:
    total = sum(size.plain for size in sizes)
    costs = [size.plain - size.beside for size in sizes if size.beside is not None]
    return _Size(domain, total, total - min(costs) if costs else None)


def _threshold(sizes: Sequence[_Size], need: int, leads: bool) -> int:
    """T: the largest possible minimum load per domain; 0 if it does not fit."""
    if not leads:
        return _least_load(sorted((size.plain for size in sizes), reverse=True), need)
    best = 0
    tried = set()
    for number, (_, plain, beside) in enumerate(sizes):
        if beside is None or (plain, beside) in tried:
            continue
        tried.add((plain, beside))
        loads = [other.plain for place, other in enumerate(sizes) if place != number]
        best = max(best, _least_load(sorted([*loads, beside], reverse=True), need))
    return best


def _least_load(loads: Sequence[int], need: int) -> int:
    total = 0
    for number, load in enumerate(loads, start=1):
        total += load
        if total >= need:
            return min(load, need // number)
    return 0


def _tightest(sizes: Sequence[_Size], need: int, leads: bool) -> list[int] | None:
    """The fewest domains that hold *need* and the leader; among those the ones with the least room, then the smaller, then the
    first.

    Sets of sums are bits of a number: bit s of reach[k][led] means that k of the items so far have room for s together.
    """
    most = _fewest(sizes, need, leads)
    if most is None:
        return None
    sizes = sorted(sizes, key=lambda size: size.plain)
    if len(sizes) * most > MOST_STEPS:
        sizes = sorted(sizes, key=lambda size: -size.plain)[: max(most, MOST_STEPS // most)]
    for number in range(most, len(sizes) + 1):
        chosen = _exactly(sizes, number, need, leads)
        if chosen is not None:
            return chosen
    return None


def _fewest(sizes: Sequence[_Size], need: int, leads: bool) -> int | None:
    """The minimum number of domains needed; None if all together are not enough."""
    whole = _sum(0, sizes)
    most = whole.beside if leads else whole.plain
    if most is None or most < need:
        return None
    left, number = need, 0
    for load in sorted((size.plain for size in sizes), reverse=True):
        if left <= 0:
            break
        left, number = left - load, number + 1
    return max(number, 1)


def _exactly(sizes: Sequence[_Size], number: int, need: int, leads: bool) -> list[int] | None:
    empty = [[0, 0] for _ in range(number + 1)]
    empty[0][0] = 1
    layers = [empty]
    for _, plain, beside in reversed(sizes):
        before = layers[-1]
        after = [row[:] for row in before]
        for k in range(1, number + 1):
            after[k][0] |= before[k - 1][0] << plain
            after[k][1] |= before[k - 1][1] << plain
            if beside is not None:
                after[k][1] |= before[k - 1][0] << beside
        layers.append(after)
    enough = layers[-1][number][leads] >> need
    if not enough:
        return None
    total = need + (enough & -enough).bit_length() - 1
    chosen: list[int] = []
    led = leads
    for (domain, plain, beside), before in zip(sizes, reversed(layers[:-1]), strict=True):
        k = number - len(chosen)
        if k and led and beside is not None and _reaches(before[k - 1][0], total - beside):
            total, led = total - beside, False
        elif k and _reaches(before[k - 1][led], total - plain):
            total -= plain
        else:
            continue
        chosen.append(domain)
    return chosen


def _reaches(bits: int, total: int) -> bool:
    return total >= 0 and bool(bits >> total & 1)


def _spread(sizes: list[_Size], need: int, leads: bool) -> list[DomainShare]:
    """Gives each domain the same amount, up to its capacity; larger domains get the rest."""
    leader: int | None = None
    if leads:
        total = sum(size.plain for size in sizes)
        costs = [
            (plain - beside, plain, domain)
            for domain, plain, beside in sizes
            if beside is not None and total - plain + beside >= need
        ]
        leader = min(costs, key=lambda cost: cost[:2])[2]
    room = {domain: (beside or 0) if domain == leader else plain for domain, plain, beside in sizes}
    shares = []
    left, others = need, len(room)
    last_first = list(room)[::-1]
    for domain in sorted(last_first, key=room.__getitem__):
        amount = min(room[domain], left // others)
        shares.append(DomainShare(domain, amount, domain == leader))
        left, others = left - amount, others - 1
    assert not left, "the chosen domains take everything"
    return [share for share in shares if share.amount or share.leads]
