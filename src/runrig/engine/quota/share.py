"""Dominant shares: how far a queue, pool or cohort stands above its own, of what its parent could ever get.

`simulate` shows them of both dialects, and Kueue's fair sharing decides by them; ours goes by GPUs alone (`tournament.py`).

Of each resource: what is held above the subtree's quota, summed over flavors, by what the parent could ever get of it, over
the node's weight; the largest of these is the node's share.  Whole numbers throughout: equal shares compare equal.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from runrig.domain.balances import Share
from runrig.domain.quantities import LARGEST, FlavorResource
from runrig.engine.quota.numbers import borrowed
from runrig.engine.quota.quota_node import CHARGED, QuotaNode, potential

PER_MILLE = 1000
FINE = 64
"""Shares are compared in steps of 2**-64 per mille."""

Amount = tuple[int, int]
"""A share to compare: (1 if it borrows with weight 0, the share or, with weight 0, what it would be with weight 1)."""

NONE: Amount = (0, 0)


class _Scale(NamedTuple):
    """*over*, *under*: the weight as a fraction.  *resources*: of each what the parent could ever get, and its indices."""

    over: int
    under: int
    resources: tuple[tuple[str, int, tuple[int, ...]], ...]


class Shares:
    """Shares of the nodes of the trees whose lists go by *keys*.  What does not change with usage is worked out once per node."""

    def __init__(self, keys: Sequence[FlavorResource]) -> None:
        self._keys = keys
        self._scales: dict[QuotaNode, _Scale] = {}

    def of(self, node: QuotaNode, layer: int = CHARGED) -> Amount:
        """The share of *node* as things stand; nothing for a root.  O(flavors x resources)."""
        if node.parent is None:
            return NONE
        usage, subtree = node.usage[layer], node.subtree
        most, by = 0, 1
        scale = self._scales.get(node) or self._scale(node)
        for _, lendable, indices in scale.resources:
            over = 0
            for index in indices:
                excess = usage[index] - subtree[index]
                if excess > 0:
                    over += excess
            if over * by > most * lendable:
                most, by = over, lendable
        if not most:
            return NONE
        if not scale.over:
            return (1, (most * PER_MILLE << FINE) // by)
        return (0, (most * PER_MILLE * scale.under << FINE) // (by * scale.over))

    def shown(self, node: QuotaNode) -> Share:
        """The share for people: rounded up, with the resource that makes it, and whether the node borrows at all."""
        over: defaultdict[str, int] = defaultdict(int)
        for index, key in enumerate(self._keys):
            over[key.resource] += borrowed(node, index)
        borrowing = node.parent is not None and any(over.values())
        if not borrowing:
            return Share(0, "", False)
        scale = self._scales.get(node) or self._scale(node)
        ratios = {
            resource: Fraction(over[resource], lendable) for resource, lendable, _ in scale.resources if over[resource]
        }
        if not ratios:
            return Share(0, "", True)
        resource = min(ratios, key=lambda name: (-ratios[name], name))
        if not scale.over:
            return Share(LARGEST, resource, True)
        share = math.ceil(ratios[resource] * PER_MILLE * scale.under / scale.over)
        return Share(min(LARGEST, share), resource, True)

    def _scale(self, node: QuotaNode) -> _Scale:
        assert node.parent is not None
        indices_of: dict[str, list[int]] = {}
        for index, key in enumerate(self._keys):
            indices_of.setdefault(key.resource, []).append(index)
        lendable = {
            resource: sum(potential(node.parent, index) for index in indices)
            for resource, indices in indices_of.items()
        }
        scale = self._scales[node] = _Scale(
            node.weight.numerator,
            node.weight.denominator,
            tuple((name, lendable[name], tuple(indices)) for name, indices in indices_of.items() if lendable[name] > 0),
        )
        return scale
