"""The order in which gangs are looked at (scheduling.md; law P4).

One order over all pools: priority, then LOW within its pool's nominal before LOW that borrows, then submit time, then id.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from runrig.engine.ledger import Bucket, Entry, Ledger


class Heads:
    """Waiting gangs in order, drawn bucket by bucket: a bucket whose head failed is left out as a whole.

    O(log buckets) per gang drawn: what is parked behind a head that failed costs nothing.
    """

    def __init__(self, buckets: Iterable[Bucket]) -> None:
        self._heap = [bucket.waiting[0] for bucket in buckets]
        heapify(self._heap)

    def __iter__(self) -> Iterator[Entry]:
        """Each gang once, if what was drawn before it left its bucket; ask `next_of` for the one behind it."""
        while self._heap:
            yield heappop(self._heap)[1]

    def next_of(self, bucket: Bucket) -> None:
        """The bucket's head has gone: the next of the bucket takes its place in the order."""
        if bucket.waiting:
            heappush(self._heap, bucket.waiting[0])


def waiting_in_order(ledger: Ledger) -> list[Entry]:
    """Everything that is pending, in the order in which the next cycle looks at it.  O(n log n); for people, not for cycles."""
    return [entry for _, entry in sorted(item for bucket in ledger.pending.values() for item in bucket.waiting)]
