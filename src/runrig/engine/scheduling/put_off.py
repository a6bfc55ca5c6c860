"""Selects the buckets that may start among those that a what-if run has put off. The others lack something and keep sleeping.

A trial edit that reshapes the tree, such as a cohort's first quota, affects all buckets that sleep below it. For most, two
numbers show that they still fail: what is left for their leaf, and the most pods that fit into one domain. Neither grows during
the pass that would evaluate them. They cannot sleep permanently, because their barriers belong to the old shape.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from runrig.engine.ledger.fit import layers_of, may_lie
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Bucket, Option
from runrig.engine.placement.partial import least_counts
from runrig.engine.quota.limits import promises
from runrig.engine.quota.quota_node import LAYERS, NodeKind, QuotaLeaf, headroom
from runrig.engine.scheduling.barriers import MOST_CHOICES


def may_start(ledger: Ledger, *, firm: bool) -> list[Bucket]:
    """Sleeping buckets, guaranteed or LOW, that were put off and that the coming pass must evaluate. O(buckets put off).

    For guaranteed work, nominations must be settled: what is left of its guarantee then does not grow, unless stopping gangs
    can be claimed.
    """
    may, found = _MayStart(ledger, firm=firm), []
    for pool in ledger.sleepers.put_off:
        here = [bucket for bucket in ledger.sleepers.asleep_in(pool) if bucket.firm is firm and not bucket.key.refused]
        found += may.of_pool(here)
    return found


def is_promised(ledger: Ledger, bucket: Bucket) -> bool:
    """False if *bucket*, of guaranteed work, can no longer start: gangs ahead of it used what was left of its guarantee (rule P2)."""
    leaf = ledger.tree.firm[bucket.pool]
    return any(all(amount <= _left(leaf, index) for index, amount in asked) for _, asked in _least(ledger, bucket))


class _MayStart:
    """Judges buckets in the current state. Buckets of one shape in equivalent pools are judged once.

    *layers*: in which they need nodes; empty if gangs may leave nodes during the pass.
    """

    def __init__(self, ledger: Ledger, *, firm: bool) -> None:
        self._ledger, self._firm = ledger, firm
        self._all = firm and bool(ledger.unclaimed)
        self._layers = layers_of(ledger) if ledger.place and (ledger.settled or not firm) else ()
        # By everything that determines the options and nodes of a pool, then by shape.
        self._known: dict[object, dict[object, bool]] = {}

    def of_pool(self, buckets: Sequence[Bucket]) -> list[Bucket]:
        """The buckets of *buckets*, all of one pool, that may start."""
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
    """The most of *index* that a gang of *leaf* can request: what is left of its guarantee or, for LOW, of headroom in both layers."""
    if leaf.kind is NodeKind.LOW:
        return min(headroom(leaf, index, layer) for layer in LAYERS)
    return min(left for _, left in promises(leaf, index))


def _least(ledger: Ledger, bucket: Bucket) -> Iterable[Option]:
    """The flavor choices for the minimum size that a gang of *bucket* accepts (rule A1), at most one more than are judged."""
    entry = bucket.waiting[0]
    return islice(options(ledger, entry, least_counts(entry.gang.pod_sets), mixed=True), MOST_CHOICES + 1)
