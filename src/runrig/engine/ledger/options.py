"""Choices of flavors for the pod sets of a gang, in the order of the pool.

Pod sets with the same requests get the same flavor if possible; mixed choices come last.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations_with_replacement, islice, product
from math import comb, prod

from runrig.domain.gangs import Assignment, Placement, PodSet
from runrig.domain.pools import Pool
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry, Option

MOST_CHOICES = 256
"""Maximum number of flavor combinations tried for one gang."""


def flavors_of(ledger: Ledger, pool: Pool, pod_set: PodSet) -> tuple[str, ...]:
    """The flavors that *pod_set* can use in *pool*, in order: the platform that it names, or all of the pool."""
    allowed = pool.flavors or tuple(ledger.flavors)
    platform = pod_set.platform or pool.default_platform
    return allowed if platform is None else tuple(name for name in allowed if name == platform)


def flavor_choices(ledger: Ledger, entry: Entry, counts: Sequence[int], *, mixed: bool = False) -> Iterator[Placement]:
    """Yields combinations of flavors for *counts* pods per pod set, without nodes, the pool's preferred flavors first.

    *mixed*: followed by those in which pod sets with the same requests have different flavors. At most MOST_CHOICES; if there are
    more, the last ones have one flavor for all pod sets.
    """
    pool = ledger.pools[entry.gang.pool]
    pod_sets = entry.gang.pod_sets
    if len(pod_sets) == 1:
        for flavor in flavors_of(ledger, pool, pod_sets[0]):
            yield (Assignment(pod_sets[0].name, flavor, counts[0]),)
        return
    every = _together(ledger, pool, pod_sets)
    if mixed:
        every = chain(every, _mixed(ledger, pool, pod_sets))
    for chosen in _limited(every, _of_one_flavor(ledger, pool, pod_sets)):
        yield tuple(
            Assignment(each.name, flavor, count) for each, flavor, count in zip(pod_sets, chosen, counts, strict=True)
        )


def choices_left_out(ledger: Ledger, entry: Entry) -> bool:
    """Whether not all combinations are tried, so that a placement may have been missed (rule T1)."""
    pool = ledger.pools[entry.gang.pool]
    pod_sets = entry.gang.pod_sets
    if len(pod_sets) == 1:
        return False
    together = prod(len(flavors_of(ledger, pool, members[0])) for members in _kinds(pod_sets))
    ways = [(len(members), len(flavors_of(ledger, pool, members[0]))) for members in _alike(pod_sets)]
    return together + prod(comb(count + flavors - 1, count) for count, flavors in ways) > MOST_CHOICES


def options(ledger: Ledger, entry: Entry, counts: tuple[int, ...], *, mixed: bool = False) -> Iterable[Option]:
    """`flavor_choices`, each with its request to the tree. Cached per bucket for full gangs with one pod set."""
    bucket = entry.bucket
    if len(counts) > 1 or counts != bucket.counts:
        found = flavor_choices(ledger, entry, counts, mixed=mixed)
        return ((choice, ledger.request_of(entry, choice)) for choice in found)
    leaf = ledger.leaf(entry)
    asked_by = ((leaf, leaf.counted, ledger.pools[entry.gang.pool]), entry.gang.pod_sets[0].name)
    if bucket.options_of != asked_by:
        bucket.options_of = asked_by
        bucket.options = tuple(
            (choice, ledger.request_of(entry, choice)) for choice in flavor_choices(ledger, entry, counts)
        )
    return bucket.options


Chosen = tuple[str, ...]
"""A flavor per pod set."""


def _of_one_flavor(ledger: Ledger, pool: Pool, pod_sets: Sequence[PodSet]) -> list[Chosen]:
    """For each flavor, the choice of it for all pod sets that can use it."""
    usable = [flavors_of(ledger, pool, each) for each in pod_sets]
    widest = max(usable, key=len) if all(usable) else ()
    return [tuple(flavor if flavor in own else own[0] for own in usable) for flavor in widest]


def _limited(every: Iterator[Chosen], last: Sequence[Chosen]) -> Iterator[Chosen]:
    yield from islice(every, max(0, MOST_CHOICES - len(last)))
    rest = list(islice(every, len(last) + 1))
    yield from rest if len(rest) <= len(last) else last


def _together(ledger: Ledger, pool: Pool, pod_sets: Sequence[PodSet]) -> Iterator[Chosen]:
    kinds = _kinds(pod_sets)
    for chosen in product(*(flavors_of(ledger, pool, members[0]) for members in kinds)):
        yield _in_pod_set_order(
            pod_sets, kinds, [(flavor,) * len(members) for members, flavor in zip(kinds, chosen, strict=True)]
        )


def _mixed(ledger: Ledger, pool: Pool, pod_sets: Sequence[PodSet]) -> Iterator[Chosen]:
    """Yields each mixture once: identical pod sets are interchangeable."""
    alike = _alike(pod_sets)
    ways = [combinations_with_replacement(flavors_of(ledger, pool, members[0]), len(members)) for members in alike]
    kinds = _kinds(pod_sets)
    for chosen in product(*ways):
        found = _in_pod_set_order(pod_sets, alike, chosen)
        flavor_of = dict(zip((each.name for each in pod_sets), found, strict=True))
        if any(len({flavor_of[each.name] for each in members}) > 1 for members in kinds):
            yield found


def _in_pod_set_order(
    pod_sets: Sequence[PodSet], groups: Sequence[Sequence[PodSet]], chosen: Sequence[Chosen]
) -> Chosen:
    """The flavors *chosen* per group member, in the order of the pod sets."""
    flavor_of = {
        each.name: flavor
        for members, flavors in zip(groups, chosen, strict=True)
        for each, flavor in zip(members, flavors, strict=True)
    }
    return tuple(flavor_of[each.name] for each in pod_sets)


def _kinds(pod_sets: Sequence[PodSet]) -> list[list[PodSet]]:
    """Groups pod sets with the same requests and platform."""
    found: dict[object, list[PodSet]] = {}
    for each in pod_sets:
        found.setdefault((each.requests, each.platform), []).append(each)
    return list(found.values())


def _alike(pod_sets: Sequence[PodSet]) -> list[list[PodSet]]:
    """Groups pod sets that differ only in their name."""
    found: dict[object, list[PodSet]] = {}
    for each in pod_sets:
        key = (each.requests, each.platform, each.count, each.min_count, each.topology)
        found.setdefault(key, []).append(each)
    return list(found.values())
