"""Dominant shares: how much a queue, pool or cohort borrows, relative to the most that its parent could get.

`simulate` shows them for Kueue queues and for pools, and Kueue's fair sharing decides by them. runrig's own pools are ordered
by GPUs alone (`tournament.py`).

For each resource: usage above the subtree's quota, summed over flavors, divided by the parent's potential and the node's
weight. The largest of these is the share. All numbers are integers, so equal shares compare equal.
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
"""A share to compare: (1 if it borrows with weight 0, the share; with weight 0, what it would be with weight 1)."""

NONE: Amount = (0, 0)


class _Scale(NamedTuple):
    """*over*, *under*: the weight as a fraction. *resources*: (resource, the parent's potential, its indices)."""

    over: int
    under: int
    resources: tuple[tuple[str, int, tuple[int, ...]], ...]


class Shares:
    """Computes shares of nodes. *keys*: what the indices of the nodes mean. Caches per node what does not depend on usage."""

    def __init__(self, keys: Sequence[FlavorResource]) -> None:
        self._keys = keys
        self._scales: dict[QuotaNode, _Scale] = {}

    def of(self, node: QuotaNode, layer: int = CHARGED) -> Amount:
        """The current share of *node*; NONE for a root. O(flavors × resources)."""
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
        """The share for people: rounded up, with the dominant resource and whether the node borrows at all."""
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
