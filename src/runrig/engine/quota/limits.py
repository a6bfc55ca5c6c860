"""The quota left for one leaf, by each guarantee and limit above it.

Each is judged separately, as if it were the only one; the smallest applies.
"""

from collections.abc import Iterator

from runrig.engine.quota.quota_node import CHARGED, QuotaLeaf, QuotaNode, left_for_firm, left_of_promise


def promises(leaf: QuotaLeaf, index: int) -> Iterator[tuple[QuotaNode, int]]:
    """Yields the leaf and the pools above it that have subpools, each with the amount left for guaranteed work of the leaf (rule P2)."""
    yield leaf, left_of_promise(leaf, index)
    for pool in leaf.pools_above:
        yield pool, left_for_firm(pool, index)


def ceilings(leaf: QuotaNode, index: int, layer: int = CHARGED) -> Iterator[tuple[QuotaNode, int]]:
    """Yields the nodes that limit *leaf*, the root last, each with the amount left for *leaf* (rule Q3). O(depth).

    Amounts are negative in an over-committed tree. The smallest is the headroom; the first one that is less than a request is
    why it does not fit.
    """
    kept_below = 0
    for node in leaf.path:
        kept = node.local[index] - node.usage[layer][index]
        kept_below += max(kept, 0)
        room = node.room[index]
        if room is None and node is leaf.path[-1]:
            room = node.subtree[index]
        if room is not None:
            yield node, kept_below + room + min(kept, 0)
