"""Picks the buckets that may start among those that a trial has put off; the others lack something that a start needs, and sleep on.

An edit on trial that reshapes the tree, such as a cohort's first quota, concerns everybody who sleeps below it.  For most of
them two numbers tell that they fail: what is left for their leaf, and the most pods that fit into one domain.  Neither grows
while the pass lasts in which they would be looked at.  They cannot sleep so for good: what they sleep before is of the old shape.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from runrig.engine.ledger.fit import layers_of, may_lie
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Bucket, Option
from runrig.engine.placement.partial import least_counts
from runrig.engine.quota.limits import promises
from runrig.engine.quota.quota_node import LAYERS, Kind, QuotaLeaf, headroom
from runrig.engine.scheduling.barriers import MOST_CHOICES


def may_start(ledger: Ledger, *, firm: bool) -> list[Bucket]:
    """Sleeping buckets, firm or LOW, that were put off and that the pass that begins now has to look at.  O(buckets put off).

    Asked for firm work when nominations are settled: then its promises do not grow, unless gangs that stop can be claimed.
    """
    may, found = _MayStart(ledger, firm=firm), []
    for pool in ledger.sleepers.put_off:
        here = [bucket for bucket in ledger.sleepers.asleep_in(pool) if bucket.firm is firm and not bucket.key.refused]
        found += may.of_pool(here)
    return found


def is_promised(ledger: Ledger, bucket: Bucket) -> bool:
    """False if *bucket*, of firm work, can no longer start: those before it have taken what was left of its promise (law P2)."""
    leaf = ledger.tree.firm[bucket.pool]
    return any(all(amount <= _left(leaf, index) for index, amount in asked) for _, asked in _least(ledger, bucket))


class _MayStart:
    """Judges buckets as things stand, those of one shape in pools that are alike at once.

    *layers*: in which they need nodes; empty if somebody may leave nodes in the pass.
    """

    def __init__(self, ledger: Ledger, *, firm: bool) -> None:
        self._ledger, self._firm = ledger, firm
        self._all = firm and bool(ledger.unclaimed)
        self._layers = layers_of(ledger) if ledger.place and (ledger.settled or not firm) else ()
        self._known: dict[
            object, dict[object, bool]
        ] = {}  # by all that decides the options and nodes of a pool, then by shape

    def of_pool(self, buckets: Sequence[Bucket]) -> list[Bucket]:
        """Returns the buckets that may start.  All *buckets* are of one pool."""
        if not buckets or self._all:
            return list(buckets)
        pool = self._ledger.pools[buckets[0].pool]
        leaf = (self._ledger.tree.firm if self._firm else self._ledger.tree.low)[pool.name]
        left = tuple(_left(leaf, index) for index in range(len(leaf.nominal)))
        known = self._known.setdefault(
            (left, leaf.counted, pool.flavors, pool.default_platform, pool.topology_keys), {}
        )
        found = []
        for bucket in buckets:
            shape = bucket.key.shape
            may = known.get(shape)
            if may is None:
                may = known[shape] = self._may(bucket, left)
            if may:
                found.append(bucket)
        return found

    def _may(self, bucket: Bucket, left: Sequence[int]) -> bool:
        for at, (choice, asked) in enumerate(_least(self._ledger, bucket)):
            if at == MOST_CHOICES:
                return True
            if all(amount <= left[index] for index, amount in asked) and (
                not self._layers or may_lie(self._ledger, bucket.waiting[0], choice, self._layers)
            ):
                return True
        return False


def _left(leaf: QuotaLeaf, index: int) -> int:
    """The most of *index* that a gang of *leaf* may ask for: of what firm work is promised, or of the headroom in both layers."""
    if leaf.kind is Kind.LOW:
        return min(headroom(leaf, index, layer) for layer in LAYERS)
    return min(left for _, left in promises(leaf, index))


def _least(ledger: Ledger, bucket: Bucket) -> Iterable[Option]:
    """The choices of flavors for the least size that a gang of *bucket* accepts (law A1), one more than are judged."""
    entry = bucket.waiting[0]
    return islice(options(ledger, entry, least_counts(entry.gang.pod_sets), mixed=True), MOST_CHOICES + 1)
