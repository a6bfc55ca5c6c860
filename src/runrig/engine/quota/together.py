"""Applies several changes of usage together, so that common ancestors are updated only once."""

from collections import defaultdict
from collections.abc import Collection

from runrig.engine.quota.quota_node import CHARGED, QuotaLeaf, QuotaNode, Request, add, note_over

Change = tuple[QuotaLeaf, Request, int]
"""(leaf, request, how many times it is added); a negative number subtracts."""


def change_together(changes: Collection[Change]) -> None:
    """Like `add` and `take` in layer CHARGED for each change, but sums up the changes of siblings before it updates their ancestors."""
    above: dict[QuotaNode, tuple[tuple[list[int], ...], defaultdict[int, int]]] = {}
    for leaf, request, times in changes:
        if leaf.parent is None or leaf.guarded or leaf.keeps or leaf.weighed:
            request = tuple([(index, abs(times) * amount) for index, amount in request])
            add(leaf, request, CHARGED, 1 if times > 0 else -1)
            continue
        if leaf.parent not in above:
            above[leaf.parent] = leaf.holding[CHARGED][1:], defaultdict(int)
        usage, total = leaf.usage[CHARGED], above[leaf.parent][1]
        for index, amount in request:
            usage[index] += times * amount
            total[index] += times * amount
    for holding, total in above.values():
        for index, amount in total.items():
            if amount:
                for usage in holding:
                    usage[index] += amount
    for leaf, request, _ in changes:
        note_over(leaf.outermost_pool, request)
