"""Flavors: which kind of node each pod set of a gang takes, tried in the order of the pool.

Pod sets that ask for the same thing take the same flavor; different ones may differ.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product

from runrig.domain.gangs import Assignment, Placement
from runrig.engine.ledger import Entry, Ledger, Option
from runrig.engine.room import Wanted

MOST_CHOICES = 256
"""Combinations of flavors that are tried for one gang."""


def choices(ledger: Ledger, entry: Entry, counts: Sequence[int]) -> Iterator[Placement]:
    """Every combination of flavors for *counts* pods per pod set, without nodes; the pool's first flavors first."""
    pool = ledger.pools[entry.gang.pool]
    pod_sets = entry.gang.pod_sets
    if len(pod_sets) == 1:
        for flavor in ledger.flavors_of(pool, pod_sets[0]):
            yield (Assignment(pod_sets[0].name, flavor, counts[0]),)
        return
    kinds = list(dict.fromkeys((each.requests, each.platform) for each in pod_sets))
    first_of = {(each.requests, each.platform): each for each in reversed(pod_sets)}
    options = [ledger.flavors_of(pool, first_of[kind]) for kind in kinds]
    for chosen in islice(product(*options), MOST_CHOICES):
        flavor_of = dict(zip(kinds, chosen, strict=True))
        yield tuple(
            Assignment(each.name, flavor_of[each.requests, each.platform], count)
            for each, count in zip(pod_sets, counts, strict=True)
        )


def options(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Iterable[Option]:
    """`choices`, each with what it asks of the tree; of a full gang of one pod set worked out once for all of its bucket."""
    bucket = entry.bucket
    if len(counts) > 1 or counts != bucket.counts:
        return ((choice, ledger.request_of(entry, choice)) for choice in choices(ledger, entry, counts))
    asked_by = (ledger.tree, entry.gang.pod_sets[0].name)
    if bucket.options_of != asked_by:
        bucket.options_of = asked_by
        bucket.options = tuple((choice, ledger.request_of(entry, choice)) for choice in choices(ledger, entry, counts))
    return bucket.options


def wanted(entry: Entry, choice: Placement) -> list[Wanted]:
    """What *choice* asks of the nodes, one per pod set."""
    return [
        Wanted(pod_set.requests, each.flavor, each.count)
        for each, pod_set in zip(choice, entry.gang.pod_sets, strict=True)
    ]
